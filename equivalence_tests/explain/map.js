// The whole head in one drawing: every matrix with its gradient below it, the steps as places on it.

const NODES = [
  // forward, backward, x, y, number of the product
  ["X", "dX", 42, 134],
  ["Wq", "dWq", 142, 46],
  ["Wk", "dWk", 142, 134],
  ["Wv", "dWv", 142, 222],
  ["Q", "dQ", 242, 46, 1],
  ["K", "dK", 242, 134, 2],
  ["V", "dV", 242, 222, 3],
  ["Omega", "dOmega", 362, 90, 4],
  ["scaled", "", 466, 90],
  ["masked", "dS", 570, 90],
  ["A", "dA", 714, 90],
  ["C", "dC", 846, 156, 5],
  ["", "J", 596, 176],
  ["", "delta", 688, 176],
];
const EDGES = [
  // path from the earlier to the later, steps that run along it, steps that run back along it
  ["M42 134 L142 46", ["Q"], ["dX", "dWq"]],
  ["M142 46 L242 46", ["Q"], ["dX", "dWq"]],
  ["M42 134 L142 134", ["K"], ["dX", "dWk"]],
  ["M142 134 L242 134", ["K"], ["dX", "dWk"]],
  ["M42 134 L142 222", ["V"], ["dX", "dWv"]],
  ["M142 222 L242 222", ["V"], ["dX", "dWv"]],
  ["M242 46 L362 90", ["Omega"], ["dQ"]],
  ["M242 134 L362 90", ["Omega"], ["dK"]],
  ["M362 90 L466 90", ["scaled"], ["dOmega"]],
  ["M466 90 L570 90", ["masked"], ["dOmega"]],
  ["M570 90 L714 90", ["A"], ["J", "delta", "dS"]],
  ["M642 90 L596 176", [], ["J"]],
  ["M642 90 L688 176", [], ["delta"]],
  ["M714 90 L846 156", ["C"], ["dA"]],
  ["M242 222 L780 222 L846 156", ["C"], ["dV"]],
];
const WIDTH = 68;
const HALF = 21; // height of a label

function drawMap() {
  const drawing = document.getElementById("drawing");
  for (const [d, forward, backward] of EDGES) {
    const path = shape(drawing, "path", { d: withMiddles(d), class: "edge" });
    path.dataset.forward = forward.join(" ");
    path.dataset.backward = backward.join(" ");
  }
  badge(drawing, 302, 112, "T");
  for (const [forward, backward, x, y, product] of NODES) {
    const group = shape(drawing, "g", { transform: `translate(${x} ${y})` });
    const both = forward && backward;
    if (forward) half(group, forward, both ? -HALF : -HALF / 2, "forward");
    if (backward) half(group, backward, both ? 0 : -HALF / 2, "backward");
    if (product) badge(drawing, x - WIDTH / 2, y - HALF, String(product));
  }
}

// The path with a point in the middle of every line, where an arrow can stand.
function withMiddles(d) {
  const points = d.match(/[\d.]+ [\d.]+/g).map((point) => point.split(" ").map(Number));
  const lines = points.slice(1).map(([x, y], k) => {
    const [before, above] = points[k];
    return `L${(before + x) / 2} ${(above + y) / 2} L${x} ${y}`;
  });
  return `M${points[0].join(" ")} ${lines.join(" ")}`;
}

function half(group, name, y, direction) {
  const made = shape(group, "g", { class: `half ${direction}` });
  made.dataset.name = name;
  shape(made, "rect", { x: -WIDTH / 2, y, width: WIDTH, height: HALF, rx: 4 });
  shape(made, "text", { x: 0, y: y + HALF / 2 + 1 }).textContent = name;
  made.addEventListener("click", () => go(STEPS.findIndex((step) => stepOf(step, name))));
}

function stepOf(step, name) {
  return step.name === name || (step.name === "W" && step.makes.includes(name));
}

function badge(drawing, x, y, content) {
  const made = shape(drawing, "g", { class: "badge", transform: `translate(${x} ${y})` });
  shape(made, "circle", { r: 9 });
  shape(made, "text", { y: 1 }).textContent = content;
}

function shape(parent, tag, attributes) {
  const made = document.createElementNS(document.getElementById("drawing").namespaceURI, tag);
  for (const [name, content] of Object.entries(attributes)) made.setAttribute(name, content);
  parent.append(made);
  return made;
}

function lightMap() {
  const step = STEPS[view.step];
  const operands = step.shows.map((each) => each.name);
  for (const each of document.querySelectorAll("#drawing .half")) {
    const { name } = each.dataset;
    each.classList.toggle("current", step.name === "J" ? name === "J" : step.makes.includes(name));
    each.classList.toggle("operand", operands.includes(name) && !step.makes.includes(name));
  }
  for (const each of document.querySelectorAll("#drawing .edge")) {
    each.classList.toggle("along", each.dataset.forward.split(" ").includes(step.name));
    each.classList.toggle("back", each.dataset.backward.split(" ").includes(step.name));
  }
  const current = document.querySelector("#drawing .half.current");
  const around = document.querySelector("#map .scroll");
  const offset = current.getBoundingClientRect().left - around.getBoundingClientRect().left;
  around.scrollLeft += offset - around.clientWidth / 2; // the page itself stays where it is
}
