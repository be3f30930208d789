// What made an entry: the entries to point at, and the equation with their numbers.

const at = ({ name, transposed }, r, s, side) =>
  transposed ? { name, i: s, j: r, side } : { name, i: r, j: s, side };

const upTo = (count) => Array.from({ length: count }, (_, k) => k);

// The pairs of factors of an entry of a sum of products.
function factors(step, i, j) {
  return step.terms.flatMap(([left, right]) =>
    upTo(layout(left).columns.indices.length).map((k) => [at(left, i, k, "left"), at(right, k, j, "right")]),
  );
}

// How an entry of a step's result is made: `parts` are the right-hand side, texts and entries mixed.
const MADE = {
  given: (step) => ({ parts: [], note: origin(step.name) }),
  product: (step, i, j) => ({ parts: sum(factors(step, i, j)) }),
  scale: (step, i, j) => {
    const name = step.name === "scaled" ? "Omega" : "dS";
    return { parts: [{ name, i, j, side: "left" }, " × ", long(state().scale)], note: scaleNote() };
  },
  mask: (step, i, j) => {
    if (isHidden("masked", i, j)) return { parts: [], note: whyHidden(i, j) };
    return { parts: [{ name: "scaled", i, j, side: "left" }], note: view.causal ? "" : text("unmasked") };
  },
  softmax: (step, i, j) => {
    if (isHidden("masked", i, j)) return { parts: [], note: whyHidden(i, j) };
    const seen = upTo(DATA.n).filter((k) => !isHidden("masked", i, k));
    const power = (k) => ["exp(", { name: "masked", i, j: k, side: k === j ? "left" : "right", bare: true }, ")"];
    const below = seen.flatMap((k, place) => (place ? [" + ", ...power(k)] : power(k)));
    return { parts: [...power(j), " / (", ...below, ")"] };
  },
  jacobian: (step, i, j, name) => {
    if (name === "dS") {
      const pair = (k) => [{ name: "J", i: j, j: k, side: "left" }, { name: "dA", i, j: k, side: "right" }];
      return { parts: sum(upTo(DATA.n).map(pair)) };
    }
    const left = { name: "A", i: view.row, j: i, side: "left" };
    const right = { name: "A", i: view.row, j, side: "right" };
    return { parts: [left, ` × (${i === j ? 1 : 0} − `, right, ")"], entry: "J[j,k] = A[j] (1[j=k] − A[k])" };
  },
  delta: (step, i) => {
    const pair = (k) => [{ name: "A", i, j: k, side: "left" }, { name: "dA", i, j: k, side: "right" }];
    return { parts: sum(upTo(DATA.n).map(pair)) };
  },
  difference: (step, i, j) => ({
    parts: [
      { name: "A", i, j, side: "left" },
      " × (",
      { name: "dA", i, j, side: "right", bare: true },
      " − ",
      { name: "delta", i, j: 0, side: "right" },
      ")",
    ],
  }),
};

function sum(pairs) {
  return pairs.flatMap(([left, right], place) => (place ? [" + ", left, " × ", right] : [left, " × ", right]));
}

function origin(name) {
  if (DATA.block && name !== "dC") return text("given_trained");
  return text(name === "X" ? "given_X" : "given", DATA);
}

const whyHidden = (i, j) => text("hidden", { key: DATA.words[j], query: DATA.words[i] });

function scaleNote() {
  const root = view.scaled ? `√${DATA.c}` : "1";
  return `scale = 1 / (${root} × T) = 1 / (${root} × ${DATA.temperatures[view.temperature]}) = ${long(state().scale)}`;
}

// Of a result: how it is made. Of an operand: null.
function made({ step: index, name, i, j }) {
  const step = STEPS[index];
  if (!step.makes.includes(name)) return null;
  const found = MADE[step.kind](step, i, j, name);
  return { from: found.parts.filter((each) => each.name), entry: step.entry, note: "", ...found };
}

const same = (one, other) => one.name === other.name && one.i === other.i && one.j === other.j;

// The entries of the step's results that an operand goes into.
function uses(entry) {
  const { kind, makes } = STEPS[entry.step];
  return makes.flatMap((name) => {
    const rows = kind === "jacobian" && name === "dS" ? [view.row] : upTo(size(DATA.axes[name][0]));
    const all = rows.flatMap((i) => upTo(size(DATA.axes[name][1])).map((j) => ({ step: entry.step, name, i, j })));
    return all.filter((result) => made(result).from.some((each) => same(each, entry)));
  });
}

function explain(entry) {
  const found = made(entry);
  const panel = document.getElementById("explanation");
  const x = value(entry.name, entry.i, entry.j);
  const head = [element("span", { class: "entry-name" }, entryName(entry)), " = ", element("strong", {}, long(x))];
  const lines = [element("p", { class: "value" }, ...head)];
  let marks = [];
  const hidden = isHidden(entry.name, entry.i, entry.j);
  if (found === null) {
    marks = uses(entry).map((each) => ({ ...each, side: "used" }));
    lines.push(element("p", { class: "note" }, hidden || !marks.length ? text("unused") : feeds(marks)));
  } else {
    if (found.entry) lines.push(element("p", { class: "symbols" }, minus(found.entry).replaceAll("*", "×")));
    if (found.parts.length) lines.push(element("p", { class: "numbers" }, "= ", ...found.parts.map(part)));
    const note = entry.name === "dA" && hidden ? text("unused") : found.note;
    if (note) lines.push(element("p", { class: "note" }, note));
    marks = found.from;
  }
  panel.replaceChildren(...lines);
  mark(entry, marks);
}

function feeds(marks) {
  const name = marks[0].name;
  return text(marks.length === 1 ? "feeds_one" : "feeds", { count: marks.length, name });
}

// A text, or an entry as its number, in brackets where a minus would meet another sign.
function part(each) {
  if (each.name === undefined) return each;
  const shown = long(value(each.name, each.i, each.j));
  const bracket = shown.startsWith("−") && !each.bare;
  const span = element("span", { class: each.side, title: entryName(each) }, bracket ? `(${shown})` : shown);
  Object.assign(span.dataset, { name: each.name, i: each.i, j: each.j });
  return span;
}

// Outline the entry, and the entries that made it, in its own step.
function mark(entry, marks) {
  for (const each of document.querySelectorAll("td.active, td.left, td.right, td.used")) {
    each.classList.remove("active", "left", "right", "used");
  }
  const sides = new Map(marks.map((each) => [`${each.name},${each.i},${each.j}`, each.side]));
  for (const each of document.querySelectorAll(`table[data-step="${entry.step}"] td[data-name]`)) {
    const { name, i, j } = each.dataset;
    const side = sides.get(`${name},${i},${j}`);
    if (name === entry.name && Number(i) === entry.i && Number(j) === entry.j) each.classList.add("active");
    else if (side) each.classList.add(side);
  }
}

function showLines(step) {
  const lines = step.lines.map(({ text: code, file, line }) =>
    element("li", {}, element("code", {}, code), element("span", { class: "place" }, text("source_line", { file, line }))),
  );
  const shown = lines.length ? [element("h3", {}, text("source")), element("ul", {}, ...lines)] : [];
  document.getElementById("lines").replaceChildren(...shown);
}
