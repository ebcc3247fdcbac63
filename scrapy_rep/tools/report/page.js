"use strict";
// Adds sorting and filtering to the table of hosts. The page is complete without this script.
(() => {
  const table = document.getElementById("host-table");
  const body = table.tBodies[0];
  const heads = Array.from(table.tHead.rows[0].cells);
  const rows = Array.from(body.rows);
  const order = new Intl.Collator("en", { numeric: true });

  const number = (cell) =>
    Number(cell.dataset.v ?? cell.textContent.replace(/,/g, ""));

  function sort(column, ascending) {
    const head = heads[column];
    const numeric = head.classList.contains("n");
    const keyed = rows.map((row, index) => {
      const cell = row.cells[column];
      return { row, index, key: numeric ? number(cell) : cell.textContent };
    });
    const compare = numeric ? (a, b) => a - b : order.compare;
    const turn = ascending ? 1 : -1;
    keyed.sort((a, b) => turn * compare(a.key, b.key) || a.index - b.index);
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    body.append(...keyed.map(({ row }) => row));
  }

  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      // The first click sorts numbers in descending order, and names in ascending order.
      sort(column, now ? now === "descending" : !head.classList.contains("n"));
    });
  });

  const form = document.getElementById("filter");
  const text = document.getElementById("filter-text");
  const access = document.getElementById("filter-access");
  const count = document.getElementById("filter-count");
  let contents = null;

  function filter() {
    contents ??= rows.map((row) => row.textContent.toLowerCase());
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, index) => {
      const fits =
        (!access.value || row.dataset.access === access.value) &&
        words.every((word) => contents[index].includes(word));
      row.hidden = !fits;
      shown += fits;
    });
    const all = rows.length.toLocaleString("en");
    count.textContent = `${shown.toLocaleString("en")} of ${all} hosts`;
  }

  let waiting = 0;
  text.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(filter, 120);
  });
  access.addEventListener("change", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
})();
