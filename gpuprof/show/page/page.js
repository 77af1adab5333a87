// Puts the page to work: charts, tables, theme, printing.
const CHARTS = { timeline: drawTimeline, operations: drawOperations, lines: drawLines, columns: drawColumns, ranks: drawRanks };

const start = (chart) => {
  const data = JSON.parse(document.getElementById(chart.dataset.source).textContent);
  const { make, whole, find } = CHARTS[chart.dataset.chart](chart, data);
  let plot = make();
  control(chart, () => plot, whole, data.closely);
  const again = () => {
    const { min, max } = plot.scales.x;
    plot.destroy();
    plot = make();
    // A chart that has not been drawn yet has no scale.
    if (min !== null && max !== null) plot.setScale("x", { min, max });
  };
  if (find) find(() => plot, again);
  let width = chart.clientWidth;
  new ResizeObserver(() => {
    if (chart.clientWidth === width) return;
    width = chart.clientWidth;
    again();
  }).observe(chart);
  return again;
};

const redraw = [...document.querySelectorAll("[data-chart]")].map(start);

const root = document.documentElement;
const themeButton = document.getElementById("theme");
const setTheme = (theme) => {
  root.dataset.theme = theme;
  themeButton.setAttribute("aria-pressed", String(theme === "dark"));
  redraw.forEach((again) => again());
};
const wishes = window.matchMedia("(prefers-color-scheme: dark)");
const wished = () => (wishes.matches ? "dark" : "light");
wishes.addEventListener("change", () => setTheme(wished()));
themeButton.hidden = false;
themeButton.addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
setTheme(wished());

const namesButton = document.getElementById("names");
namesButton.hidden = false;
namesButton.addEventListener("click", () => {
  const isFull = document.body.classList.toggle("full-names");
  namesButton.setAttribute("aria-pressed", String(isFull));
});

document.querySelectorAll(".sortable").forEach(makeSortable);
document.querySelectorAll(".search input").forEach(makeSearchable);

// A link to a table unfolds it, however often it is followed.
const unfold = (link) => {
  const block = link.startsWith("#table-") && document.getElementById(link.slice(1));
  if (block) block.open = true;
};
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='#']");
  if (link) unfold(link.getAttribute("href"));
});
window.addEventListener("hashchange", () => unfold(window.location.hash));
unfold(window.location.hash);

// Paper is white and cannot be unfolded.
let before = null;
window.addEventListener("beforeprint", () => {
  before = [root.dataset.theme, [...document.querySelectorAll("details")].map((one) => one.open)];
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
  isOnPaper = true;
  setTheme("light");
});
window.addEventListener("afterprint", () => {
  isOnPaper = false;
  document.querySelectorAll("details").forEach((one, place) => { one.open = before[1][place]; });
  setTheme(before[0]);
});
