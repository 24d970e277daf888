"use strict";
// Themes, plots that follow them, what is behind a number, and the reader's choice of levels.
// No page is asked for anything.
(() => {
  const read = (id) => { const e = document.getElementById(id); return e ? JSON.parse(e.textContent) : null; };
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const root = document.documentElement;
  const details = read("details");
  const figures = read("figures") || {};
  const factors = read("levels") || [];
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const themeButton = document.getElementById("theme");
  let chosen = null;
  let printing = false;

  // --- Themes ---

  function style(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }
  function colour(name) {
    const key = name.slice(1);
    return /^\d+$/.test(key) ? style(`--c${key}`) : style(`--${key}`);
  }
  // Copies data with the page's colours in place of their names.
  function dressed(value) {
    if (typeof value === "string") return /^@\w+$/.test(value) ? colour(value) : value;
    if (Array.isArray(value)) return value.map(dressed);
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, dressed(v)]));
    return value;
  }
  function theme() {
    const isDark = !printing && (chosen === null ? dark.matches : chosen === "dark");
    root.dataset.theme = isDark ? "dark" : "light";
    themeButton.textContent = isDark ? "Light" : "Dark";
    themeButton.setAttribute("aria-pressed", String(isDark));
    drawAll();
  }
  themeButton.hidden = false;
  themeButton.addEventListener("click", () => { chosen = root.dataset.theme === "dark" ? "light" : "dark"; theme(); });
  dark.addEventListener("change", theme);

  // --- The reader's choice of levels ---

  const boxes = new Map(all("#filter input").map((box) => [box.dataset.level, box]));
  const keys = new Map();
  factors.forEach((factor) => factor.levels.forEach((level) => keys.set(level.id, keys.has(level.id) ? null : level.key)));
  const isOff = (key) => boxes.has(key) && !boxes.get(key).checked;
  const isIdOff = (id) => typeof id === "string" && isOff(keys.get(id));
  // Something about several levels of one factor goes when all of them do.
  function isHidden(levels) {
    const byFactor = new Map();
    levels.forEach((key) => {
      const at = key.split(".")[0];
      byFactor.set(at, (byFactor.get(at) ?? true) && isOff(key));
    });
    return [...byFactor.values()].includes(true);
  }
  const levelsOf = (node) => (node.dataset.l || "").split(" ").filter(Boolean);
  const hide = (node, isGone) => node.toggleAttribute("data-hides", isGone);

  function filterTables() {
    all("tr[data-l]").forEach((row) => hide(row, isHidden(levelsOf(row))));
    all("table").forEach((table) => {
      const heads = all("thead tr:last-child th", table);
      if (!heads.some((head) => head.dataset.l)) return;
      const gone = heads.map((head) => isHidden(levelsOf(head)));
      heads.forEach((head, i) => hide(head, gone[i]));
      all("tbody tr:not(.section)", table).forEach((row) => [...row.children].forEach((cell, i) => hide(cell, gone[i])));
      let at = 0;
      all(".groups > *", table).forEach((group) => {
        const width = Number(group.dataset.span ??= group.colSpan);
        const left = gone.slice(at, at + width).filter((isGone) => !isGone).length;
        at += width;
        hide(group, left === 0);
        group.colSpan = Math.max(1, left);
      });
    });
  }
  // A trace without the points of levels that are not chosen.
  function filterTrace(trace) {
    const lists = ["text", "customdata", "y", "x"].filter((name) => Array.isArray(trace[name]));
    const stays = (trace.x || []).map((_, i) => !lists.some((name) => isIdOff(trace[name][i])));
    if (stays.every(Boolean)) return trace;
    const pick = (value) => Array.isArray(value) && value.length === stays.length ? value.filter((_, i) => stays[i]) : value;
    const parts = (value) => value && typeof value === "object" && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, pick(v)])) : pick(value);
    return Object.fromEntries(Object.entries(trace).map(([k, v]) => [k, parts(v)]));
  }
  // A panel of the chosen levels: without their curves, points, names and rows.
  function filterPanel(panel) {
    const layout = { ...panel.layout, yaxis: { ...panel.layout.yaxis } };
    let data = panel.data.filter((trace) => !isHidden(trace.levels)).map(filterTrace);
    let rows = panel.rows;
    const names = layout.yaxis.ticktext;
    if (names && names.some(isIdOff)) {
      const left = names.filter((name) => !isIdOff(name));
      const places = names.map((name) => left.indexOf(name));
      data = data.map((trace) => ({ ...trace, y: trace.y.map((y) => y === null ? y : places[Math.round(y)] + y - Math.round(y)) }));
      Object.assign(layout.yaxis, { ticktext: left, tickvals: left.map((_, i) => i), range: [-0.6, left.length - 0.4] });
      rows = left.length;
    }
    if (layout.yaxis.categoryarray) {
      layout.yaxis.categoryarray = layout.yaxis.categoryarray.filter((name) => !isIdOff(name));
      rows -= panel.layout.yaxis.categoryarray.length - layout.yaxis.categoryarray.length;
    }
    if (layout.annotations) layout.annotations = layout.annotations.filter((each) => !each.name.split('<br>').every(isIdOff));
    return { ...panel, data, layout, rows: panel.rows && Math.max(1, rows) };
  }

  function describeChoice() {
    const parts = factors.map((factor) => {
      const on = factor.levels.filter((level) => !isOff(level.key)).length;
      return { factor, on, isAll: on === factor.levels.length };
    });
    const limited = parts.filter((part) => !part.isAll);
    const text = limited.map((part) => `${part.factor.title}: ${part.on} of ${part.factor.levels.length}`).join(", ");
    document.getElementById("filter-count").textContent = text ? ` (${text})` : "";
    document.getElementById("filter-state").textContent = text ? `Shown: ${text}` : "";
    document.getElementById("filter").toggleAttribute("data-active", limited.length > 0);
    return limited.map((part) => `${encodeURIComponent(part.factor.name)}=${part.factor.levels.filter(
      (level) => !isOff(level.key)).map((level) => encodeURIComponent(level.id)).join(",")}`);
  }
  const anchor = () => decodeURIComponent(location.hash.slice(1).split("&").find((part) => part && !part.includes("=")) || "");
  function applyChoice({ keepsAddress = false } = {}) {
    if (!boxes.size) return;
    const choice = describeChoice();
    const place = anchor();
    if (!keepsAddress) {
      const parts = [...(place ? [encodeURIComponent(place)] : []), ...choice];
      history.replaceState(null, "", parts.length ? `#${parts.join("&")}` : location.pathname + location.search);
    }
    filterTables();
    all(".panel").forEach((node) => {
      const plot = node.querySelector(".plot");
      hide(node, isHidden(figures[plot.dataset.figure][Number(plot.dataset.panel)].levels));
    });
    drawAll();
    markScrolling();
  }
  function readAddress() {
    const wanted = new Map(location.hash.slice(1).split("&").filter((part) => part.includes("=")).map((part) => {
      const [name, ids] = part.split("=");
      return [decodeURIComponent(name), ids.split(",").filter(Boolean).map(decodeURIComponent)];
    }));
    factors.forEach((factor) => {
      const ids = wanted.get(factor.name);
      factor.levels.forEach((level) => { boxes.get(level.key).checked = !ids || ids.includes(level.id); });
    });
  }
  const filter = document.getElementById("filter");
  if (filter) {
    filter.hidden = false;
    filter.addEventListener("change", () => applyChoice());
    all("[data-choose]").forEach((button) => button.addEventListener("click", () => {
      factors.find((factor) => String(factor.at) === button.dataset.choose).levels.forEach((level) => {
        boxes.get(level.key).checked = button.dataset.to === "all";
      });
      applyChoice();
    }));
    document.addEventListener("click", (event) => { if (!filter.contains(event.target)) filter.open = false; });
    filter.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { filter.open = false; filter.querySelector("summary").focus(); }
    });
  }

  // --- What is folded ---

  const folds = all("main details");
  // A phone shows one figure and one group of claims. The others are folded until the reader wants them.
  if (matchMedia("(max-width: 40rem)").matches) {
    ["figure", "claims-of"].forEach((kind) => all(`details.${kind}[open]`).slice(1).forEach((fold) => { fold.open = false; }));
  }
  const unfold = document.getElementById("unfold");
  unfold.hidden = !folds.length;
  unfold.addEventListener("click", () => {
    const opens = unfold.getAttribute("aria-pressed") === "false";
    folds.forEach((fold) => { fold.open = opens; });
    unfold.setAttribute("aria-pressed", String(opens));
    unfold.textContent = opens ? "Fold all" : "Unfold all";
  });
  folds.forEach((fold) => fold.addEventListener("toggle", () => { if (fold.open) { drawAll(fold); markScrolling(); } }));
  function reveal() {
    const target = document.getElementById(anchor());
    if (!target) return;
    for (let node = target; node; node = node.parentElement) if (node.matches("details")) node.open = true;
    target.scrollIntoView();
  }
  // Links within the page keep the choice in its address.
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const choice = location.hash.slice(1).split("&").filter((part) => part.includes("="));
    const to = `#${[link.hash.slice(1), ...choice].join("&")}`;
    if (to !== location.hash) history.pushState(null, "", to);
    reveal();
    const target = document.getElementById(anchor());
    if (target) { target.tabIndex = target.tabIndex < 0 && !target.matches("details") ? -1 : target.tabIndex; target.focus({ preventScroll: true }); }
  });
  addEventListener("popstate", () => { readAddress(); applyChoice({ keepsAddress: true }); reveal(); });
  function markScrolling() {
    all(".scroll").forEach((box) => { if (box.clientWidth) box.classList.toggle("scrolls", box.scrollWidth > box.clientWidth + 1); });
  }
  addEventListener("resize", markScrolling);

  // --- Plots ---

  const hidden = new Set(); // curves that the reader switched off or on, by figure and name
  const plots = all(".plot");
  function axis(given) {
    return { gridcolor: style("--line"), linecolor: style("--muted"), tickcolor: style("--muted"), zerolinecolor: style("--line"),
      automargin: true, ticks: "outside", ticklen: 4, showline: true, ...given,
      title: given.title ? { standoff: 8, ...given.title } : undefined };
  }
  const curves = (id) => figures[id].flatMap((panel) => filterPanel(panel).data)
    .filter((trace) => trace.showlegend !== false && trace.name);
  function isShown(id, trace) {
    const isFlipped = hidden.has(`${id} ${trace.name}`);
    return (trace.visible === "legendonly") === isFlipped;
  }
  function draw(node) {
    const id = node.dataset.figure;
    const panel = dressed(filterPanel(figures[id][Number(node.dataset.panel)]));
    panel.data.forEach((trace) => { trace.visible = isShown(id, trace); trace.showlegend = false; delete trace.levels; });
    const isNarrow = node.clientWidth < 480;
    const height = panel.rows ? 70 + panel.rows * (panel.rows > 6 ? 27 : 36) : 330;
    const layout = { ...panel.layout, height, autosize: true, xaxis: axis(panel.layout.xaxis || {}), yaxis: axis(panel.layout.yaxis || {}),
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 52, r: 14, t: 8, b: 44 }, showlegend: false,
      font: { family: getComputedStyle(document.body).fontFamily, size: isNarrow ? 11 : 12, color: style("--ink") },
      hoverlabel: { bgcolor: style("--card"), bordercolor: style("--muted"), font: { color: style("--ink") } },
      hovermode: "closest", dragmode: matchMedia("(hover: hover)").matches ? "zoom" : false };
    return Plotly.react(node, panel.data, layout, { displayModeBar: false, responsive: true, scrollZoom: false });
  }
  // Only what can be seen: a folded plot has no width.
  function drawAll(within = document) {
    if (!window.Plotly) return;
    const seen = all(".plot", within).filter((node) => node.clientWidth);
    seen.forEach(draw);
    new Set(seen.map((node) => node.dataset.figure)).forEach(drawKey);
  }
  const SHAPES = {
    circle: '<circle cx="13" cy="7" r="4.5"/>', square: '<path d="M8.5 2.5h9v9h-9z"/>', diamond: '<path d="M 13 1l6 6-6 6-6-6z"/>',
    "triangle-up": '<path d="M 13 1.5l5.5 10h-11z"/>', "triangle-down": '<path d="M 13 12.5l5.5-10h-11z"/>',
    cross: '<path d="M11 2h4v3h3v4h-3v3h-4v-3h-3v-4h3z"/>', x: '<path d="M9 1.5l4 3.5 4-3.5 1.5 1.5-3.5 4 3.5 4-1.5 1.5-4-3.5-4 3.5-1.5-1.5 3.5-4-3.5-4z"/>',
    star: '<path d="M 13 1l1.6 4.2 4.4.2-3.5 2.8 1.2 4.4-3.7-2.5-3.7 2.5 1.2-4.4-3.5-2.8 4.4-.2z"/>', pentagon: '<path d="M 13 1.5l5.5 4-2 6.5h-7l-2-6.5z"/>',
    hexagon: '<path d="M 13 1.5l5 2.8v5.6l-5 2.8-5-2.8v-5.6z"/>', hourglass: '<path d="M8.5 2h9l-9 10h9z"/>', bowtie: '<path d="M8 2.5v9l10-9v9z"/>',
    "triangle-left": '<path d="M8 7l9-5.5v11z"/>', "triangle-right": '<path d="M18 7l-9-5.5v11z"/>', "diamond-tall": '<path d="M 13 .5l3.5 6.5-3.5 6.5-3.5-6.5z"/>',
    octagon: '<path d="M11 2h4l3 3v4l-3 3h-4l-3-3v-4z"/>' };
  const DASHES = { dash: "5 3", dot: "2 2", dashdot: "5 2 1 2", longdash: "8 3" };
  function symbolOf(trace) {
    const line = trace.mode?.includes("lines") || !trace.mode && trace.type !== "bar" ? trace.line || {} : null;
    const symbol = trace.type === "bar" ? "square" : trace.mode?.includes("markers") ? String(trace.marker?.symbol || "circle") : "";
    const paint = trace.marker?.color || trace.line?.color || "@ink";
    const plain = typeof paint === "string" ? colour(paint) : style("--ink");
    const isOpen = symbol.endsWith("-open");
    return `<svg viewBox="0 0 26 14" aria-hidden="true" fill="${isOpen ? "none" : plain}" stroke="${plain}" stroke-width="${isOpen || line ? 1.6 : 0}">${
      line && trace.mode !== "markers" ? `<path d="M1 7h24" fill="none" stroke-dasharray="${DASHES[line.dash] || ""}"/>` : ""}${SHAPES[symbol.replace("-open", "")] || ""}</svg>`;
  }
  // The key of a figure stands once, above its panels; a button switches a curve in all of them.
  function drawKey(id) {
    const key = document.getElementById(id).querySelector(".key");
    const byName = new Map();
    curves(id).forEach((trace) => {
      // A name that has another colour in each panel is explained by its line and marker's kind.
      const known = byName.get(trace.name);
      const isSame = !known || (known.marker || known.line)?.color === (trace.marker || trace.line)?.color;
      byName.set(trace.name, isSame ? trace : { ...trace, line: { ...trace.line, color: "@ink" }, marker: trace.marker && {
        ...trace.marker, color: "@ink", symbol: String(trace.marker.symbol).endsWith("-open") ? "circle-open" : "circle" } });
    });
    key.hidden = byName.size < 2 && !String([...byName.keys()][0] || "measured").replace("measured", "");
    const focused = document.activeElement?.dataset?.curve;
    key.replaceChildren(...[...byName].map(([name, trace]) => {
      const button = element("button", "", { type: "button", "aria-pressed": String(isShown(id, trace)), "data-curve": name });
      button.innerHTML = symbolOf(trace);
      button.append(name);
      button.addEventListener("click", () => {
        const mark = `${id} ${name}`;
        if (!hidden.delete(mark)) hidden.add(mark);
        drawAll(document.getElementById(id));
      });
      return button;
    }));
    if (focused) all("button", key).find((button) => button.dataset.curve === focused)?.focus();
  }
  // The library is in the page, compressed.
  async function loadPlotly() {
    const packed = document.getElementById("plotly");
    if (!packed) return;
    if (!window.DecompressionStream) {
      plots.forEach((plot) => { plot.textContent = "Plots need a browser of 2023 or later. The tables have all numbers."; });
      return;
    }
    const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = element("script", await new Response(stream).text());
    document.head.append(script);
    drawAll();
  }

  // --- Paper: all is unfolded, and light ---

  addEventListener("beforeprint", () => {
    printing = true;
    folds.forEach((fold) => { fold.dataset.open = fold.open; fold.open = true; });
    theme();
  });
  addEventListener("afterprint", () => {
    printing = false;
    folds.forEach((fold) => { fold.open = fold.dataset.open === "true"; });
    theme();
  });

  // --- What is behind a number ---

  const dialog = document.getElementById("detail");
  function element(name, text, attributes = {}) {
    const made = document.createElement(name);
    made.textContent = text;
    Object.entries(attributes).forEach(([k, v]) => made.setAttribute(k, v));
    return made;
  }
  function records(box, found) {
    const names = details.sets[found.set];
    const captured = new Set(details.captured);
    box.append(element("p", `${found.count} record${found.count > 1 ? "s" : ""}:`));
    const list = element("ul", "");
    names.forEach((name) => {
      const item = element("li", "");
      item.append(details.recordsAt ? element("a", name, { href: `${details.recordsAt}${encodeURIComponent(name)}.json` }) : name);
      if (captured.has(name)) item.append(", ", element("a", "captures", { href: `${details.capturesAt}${encodeURIComponent(name)}/` }));
      list.append(item);
    });
    if (found.count > names.length) list.append(element("li", `and ${found.count - names.length} more`));
    box.append(list);
  }
  function open(cell) {
    dialog.querySelector("h2").textContent = cell.title;
    dialog.querySelector(".big").textContent = cell.value;
    const facts = dialog.querySelector("dl");
    facts.replaceChildren();
    [["95 % interval", cell.interval], ["values", cell.n], ["published", cell.published], ["modelled", cell.modelled], ["note", cell.note]].forEach(([name, value]) => {
      if (!value) return;
      const pair = element("div", "");
      pair.append(element("dt", name), element("dd", value));
      facts.append(pair);
    });
    facts.hidden = !facts.children.length;
    const box = dialog.querySelector(".links");
    box.replaceChildren();
    if (cell.records) records(box, cell.records);
    dialog.showModal();
  }
  document.addEventListener("click", (event) => {
    const hit = event.target.closest("[data-detail]");
    if (hit) open(details.cells[Number(hit.dataset.detail)]);
    else if (event.target === dialog) dialog.close();
  });

  theme();
  all(".dot").forEach((dot) => dot.style.setProperty("background", `var(--c${dot.dataset.colour})`));
  readAddress();
  applyChoice({ keepsAddress: true });
  reveal();
  markScrolling();
  loadPlotly();
})();
