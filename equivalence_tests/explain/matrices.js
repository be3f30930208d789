// Matrices as tables: words and numbers label rows and columns, colour and number say the value.

function renderStep(index) {
  const step = STEPS[index];
  const equation = element("div", { class: "equation" }, element("div", { class: "term" }));
  for (const each of step.shows) {
    if (["=", "+", "*"].includes(each.sign)) equation.append(element("div", { class: "term" })); // a line may break here
    equation.lastChild.append(each.sign === undefined ? matrixView(each, index) : signView(each.sign));
  }
  const section = element(
    "section",
    { class: `step ${index < firstBackward() ? "forward" : "backward"}`, "aria-labelledby": `title-${index}` },
    element("h2", { id: `title-${index}` }, text(`title_${step.name}`)),
    element("p", { class: "idea" }, idea(step)),
  );
  if (step.name === "J") section.append(rowChoice());
  section.append(equation);
  return section;
}

function idea(step) {
  return step.name === "X" && DATA.block ? text("idea_X_trained", DATA) : text(`idea_${step.name}`);
}

function firstBackward() {
  return STEPS.findIndex((step) => step.name === "dC");
}

function signView(sign) {
  if (sign === "scale") return element("span", { class: "sign number" }, `× ${long(state().scale)}`);
  return element("span", { class: "sign" }, { "@": "×", "*": "∘", "-": "−" }[sign] ?? sign);
}

function rowChoice() {
  const select = element("select", { id: "row" });
  DATA.words.forEach((word, i) => select.append(element("option", { value: i }, word)));
  select.value = view.row;
  select.addEventListener("change", () => set({ row: Number(select.value) }));
  return element("label", { class: "row-choice" }, `${text("row")} `, select);
}

// Rows and columns as they are shown, each as the index in the matrix itself.
function layout({ name, transposed, row }) {
  const [down, across] = DATA.axes[name];
  const all = (axis) => Array.from({ length: size(axis) }, (_, i) => i);
  const sliced = row && name !== "J"; // J is a matrix for each row
  const rows = { axis: down, indices: sliced ? [view.row] : all(down) };
  const columns = { axis: across, indices: all(across) };
  return transposed ? { rows: columns, columns: rows } : { rows, columns };
}

function title({ name, transposed, row }) {
  const made = element("span", { class: "name" }, row ? `${name}[${DATA.words[view.row]}]` : name);
  if (transposed) made.append(element("sup", {}, "T"));
  return made;
}

function matrixView(shown, index) {
  const { rows, columns } = layout(shown);
  const { name, transposed } = shown;
  const counts = { rows: rows.indices.length, columns: columns.indices.length };
  const spoken = transposed ? text("transposed", { name }) : name;
  const table = element("table", { role: "grid", "aria-label": text("matrix", { ...counts, name: spoken }) });
  const head = element("tr", {}, element("td", { class: "corner" }));
  for (const j of columns.indices) head.append(heading("col", columns.axis, j));
  table.append(element("thead", {}, head));
  const body = element("tbody");
  const top = largest(name);
  for (const i of rows.indices) {
    const line = element("tr", {}, heading("row", rows.axis, i));
    for (const j of columns.indices) line.append(transposed ? cell(name, j, i, top) : cell(name, i, j, top));
    body.append(line);
  }
  table.append(body);
  table.dataset.step = index;
  table.querySelector("td[data-name]").tabIndex = 0;
  const isResult = STEPS[index].makes.includes(name);
  return element(
    "figure",
    { class: isResult ? "matrix result" : "matrix" },
    element("figcaption", {}, title(shown), " ", element("span", { class: "shape" }, `${counts.rows} × ${counts.columns}`)),
    element("div", { class: "scroll" }, table),
  );
}

function heading(scope, axis, i) {
  const word = label(axis, i);
  return element(
    "th",
    { scope, class: axis === "words" ? "word" : "index", title: word },
    element("span", {}, word),
  );
}

function largest(name) {
  const rows = name === "J" ? matrix("J")[view.row] : matrix(name);
  return Math.max(...rows.flat().map((x) => Math.abs(x ?? 0)));
}

function cell(name, i, j, top) {
  const x = value(name, i, j);
  const made = element("td", { tabindex: -1 }, short(x));
  Object.assign(made.dataset, { name, i, j });
  made.classList.add(x === null || x === 0 ? "zero" : x > 0 ? "positive" : "negative");
  if (x) made.style.setProperty("--share", `${Math.round((70 * Math.abs(x)) / top)}%`);
  if (isHidden(name, i, j)) made.classList.add("hidden");
  return made;
}
