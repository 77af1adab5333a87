// Tables that sort by a click on a head and hide the rows that a search does not find.
const sortBy = (table, head, column) => {
  const isDown = head.getAttribute("aria-sort") !== "descending" && head.classList.contains("number")
    || head.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
  const body = table.tBodies[0];
  const keyed = [...body.rows].map((row) => {
    const cell = row.cells[column];
    return [row, cell.dataset.key === undefined ? null : Number(cell.dataset.key), cell.textContent];
  });
  const sign = isDown ? -1 : 1;
  keyed.sort(([, key, text], [, otherKey, otherText]) => {
    if (key !== null && otherKey !== null) return sign * (key - otherKey);
    // What is unknown stands last, whichever way.
    if (key !== null || otherKey !== null) return key === null ? 1 : -1;
    return sign * text.localeCompare(otherText, "en", { numeric: true });
  });
  body.append(...keyed.map(([row]) => row));
};

const makeSortable = (table) => {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => sortBy(table, head, column));
  });
};

const makeSearchable = (input) => {
  const table = document.getElementById(input.getAttribute("aria-controls"));
  const found = input.closest(".search").querySelector(".found");
  const rows = [...table.tBodies[0].rows];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, place) => {
      row.hidden = !words.every((word) => texts[place].includes(word));
      shown += row.hidden ? 0 : 1;
    });
    found.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
  });
};
