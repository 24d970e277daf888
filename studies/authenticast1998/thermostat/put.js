// Sets what differs from what is there: a page is styled and painted anew also for what stays the same.

export function put(target, property, value) {
  if (target[property] !== value) target[property] = value;
}
