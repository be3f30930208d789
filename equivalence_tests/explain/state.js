"use strict";

// What is shown, and the numbers for it. Nothing is computed here: every number is looked up.

const DATA = JSON.parse(document.getElementById("data").textContent);
const STEPS = DATA.steps;
const view = {
  language: DATA.language,
  theme: "auto",
  step: 0,
  causal: DATA.block > 0, // as the trained model is
  scaled: true,
  temperature: DATA.temperatures.indexOf(1),
  row: Math.min(1, DATA.n - 1), // whose Jacobian is shown
  everything: false,
  word: Math.min(1, DATA.n - 1), // row and column that were looked at last
  column: 0,
  entry: null, // {step, name, i, j}: the one that is explained
};

function text(key, values = {}) {
  const filled = DATA.texts[view.language][key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
  return filled.replace("-∞", "−∞").replace("^T", "ᵀ");
}

function state() {
  const temperature = DATA.temperatures[view.temperature];
  return DATA.states.find(
    (each) => each.causal === view.causal && each.scaled === view.scaled && each.temperature === temperature,
  );
}

function matrix(name) {
  return DATA.pool[state().matrices[name]];
}

// The entry of a matrix; null is -inf. Of the symmetric Jacobian of the chosen row the lower triangle is stored.
function value(name, i, j) {
  if (name !== "J") return matrix(name)[i][j];
  return matrix("J")[view.row][Math.max(i, j)][Math.min(i, j)];
}

function size(axis) {
  return { words: DATA.n, d: DATA.d, c: DATA.c }[axis] ?? 1;
}

function label(axis, i) {
  return axis === "words" ? DATA.words[i] : axis === "" ? "" : String(i + 1);
}

function entryName({ name, i, j }) {
  const [rows, columns] = DATA.axes[name];
  const places = [label(rows, i), label(columns, j)].filter((each) => each !== "");
  return `${name === "J" ? `J[${DATA.words[view.row]}]` : name}[${places.join(", ")}]`;
}

// Whether the mask keeps this entry from mattering.
function isHidden(name, i, j) {
  if (!view.causal) return false;
  if (name === "J") return Math.max(i, j) > view.row;
  return ["masked", "A", "dA", "dS", "dOmega"].includes(name) && j > i;
}

const minus = (shown) => shown.replace(/-/g, "−");

// Two places in a cell; an exact 0 is told from a small number.
function short(x) {
  if (x === null) return "−∞";
  if (x === 0) return "0";
  const places = Math.abs(x) >= 100 ? 0 : Math.abs(x) >= 10 ? 1 : 2;
  return minus(x.toFixed(places).replace(/^-(0\.00)$/, "$1"));
}

// Four digits in an equation.
function long(x) {
  if (x === null) return "−∞";
  if (x === 0) return "0";
  const plain = Math.abs(x) >= 1e-3 && Math.abs(x) < 1e5;
  return minus(plain ? String(Number(x.toPrecision(4))) : x.toExponential(3));
}

// An element with its properties and children; text is only ever text.
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, content] of Object.entries(properties)) {
    if (name === "class") made.className = content;
    else made.setAttribute(name, content);
  }
  made.append(...children);
  return made;
}
