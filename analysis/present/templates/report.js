"use strict";
// Themes, plots that follow them, and what is behind a number. No page is asked for anything.
(() => {
  const read = (id) => { const e = document.getElementById(id); return e ? JSON.parse(e.textContent) : {}; };
  const root = document.documentElement;
  const details = read("details");
  const figures = read("figures");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  let chosen = null;
  let printing = false;

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
  function axis(given) {
    return { gridcolor: style("--line"), linecolor: style("--muted"), tickcolor: style("--muted"), zerolinecolor: style("--line"),
      automargin: true, ticks: "outside", ticklen: 4, showline: true, fixedrange: false, ...given,
      title: given.title ? { standoff: 10, ...given.title } : undefined };
  }
  function draw(node) {
    const panel = dressed(figures[node.dataset.figure][Number(node.dataset.panel)]);
    // A reader's choice in the legend outlives a change of theme.
    const shown = node.data ? node.data.map((trace) => trace.visible) : [];
    shown.forEach((visible, i) => { if (panel.data[i] && visible !== undefined) panel.data[i].visible = visible; });
    const narrow = node.clientWidth < 480;
    const height = panel.rows ? 150 + panel.rows * (panel.rows > 6 ? 30 : 38) : 400;
    const layout = { ...panel.layout, height, autosize: true, xaxis: axis(panel.layout.xaxis), yaxis: axis(panel.layout.yaxis),
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 52, r: 14, t: 8, b: 44 },
      font: { family: getComputedStyle(document.body).fontFamily, size: narrow ? 11 : 12, color: style("--ink") },
      legend: { orientation: "h", traceorder: "normal", x: 0, xanchor: "left", y: -0.2, yanchor: "top", yref: "paper", font: { size: narrow ? 10.5 : 11.5 } },
      hoverlabel: { bgcolor: style("--card"), bordercolor: style("--muted"), font: { color: style("--ink") } },
      hovermode: "closest", dragmode: false };
    if (panel.rows) layout.legend.y = -(78 / Math.max(60, height - 120));
    return Plotly.react(node, panel.data, layout, { displayModeBar: false, responsive: true, scrollZoom: false });
  }
  const plots = [...document.querySelectorAll(".plot")];
  function drawAll() { if (window.Plotly) plots.forEach(draw); }

  function theme() {
    const isDark = !printing && (chosen === null ? dark.matches : chosen === "dark");
    root.dataset.theme = isDark ? "dark" : "light";
    button.textContent = isDark ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(isDark));
    drawAll();
  }
  button.addEventListener("click", () => { chosen = root.dataset.theme === "dark" ? "light" : "dark"; theme(); });
  dark.addEventListener("change", theme);
  // Paper shows what is to be read first, and is light.
  const notices = [...document.querySelectorAll("details.notice")];
  addEventListener("beforeprint", () => {
    printing = true;
    notices.forEach((notice) => { notice.dataset.open = notice.open; notice.open = true; });
    theme();
  });
  addEventListener("afterprint", () => {
    printing = false;
    notices.forEach((notice) => { notice.open = notice.dataset.open === "true"; });
    theme();
  });

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
})();
