// Charts over a numeric axis: what uPlot draws, and moving about in them by key, button and wheel.
const LINE_COLOURS = ["compute", "peer", "htod", "dtoh", "local", "communication"];
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const lineLook = (number, kind) => ({
  stroke: colour(kind ?? LINE_COLOURS[number % LINE_COLOURS.length]),
  dash: DASHES[Math.floor(number / LINE_COLOURS.length) % DASHES.length],
});

const axisLook = () => ({
  stroke: colour("ink"),
  grid: { stroke: colour("line"), width: 0.5 },
  ticks: { stroke: colour("line"), width: 0.5 },
});

// uPlot leaves 80 pixels for an axis of times and its name, which are two lines of small text.
const AXIS_HEIGHT = 56;
const lowerAxisLook = () => ({ ...axisLook(), size: 34, labelSize: AXIS_HEIGHT - 34, space: 70 });

// A4 between its margins: a page is laid out for paper after its charts are drawn.
const PAPER_WIDTH = 700;
let isOnPaper = false;
const widthOf = (place) => (isOnPaper ? PAPER_WIDTH : Math.max(240, place.clientWidth));

// Zooms about a point given as a fraction of what is shown; factor < 1 shows less.
const zoom = (plot, factor, at, whole) => {
  const { min, max } = plot.scales.x;
  const isLog = plot.scales.x.distr === 3;
  const [low, high, first, last] = [min, max, ...whole].map((v) => (isLog ? Math.log(v) : v));
  const length = Math.min((high - low) * factor, last - first);
  const centre = low + (high - low) * at;
  const start = Math.min(Math.max(centre - length * at, first), last - length);
  const back = (value) => (isLog ? Math.exp(value) : value);
  if (length > 0) plot.setScale("x", { min: back(start), max: back(start + length) });
};

const move = (plot, fraction, whole) => {
  const { min, max } = plot.scales.x;
  const isLog = plot.scales.x.distr === 3;
  const [low, high, first, last] = [min, max, ...whole].map((v) => (isLog ? Math.log(v) : v));
  const by = Math.min(Math.max((high - low) * fraction, first - low), last - high);
  const back = (value) => (isLog ? Math.exp(value) : value);
  plot.setScale("x", { min: back(low + by), max: back(high + by) });
};

// What keys and buttons do to a chart.
const control = (chart, plot, whole, closely = whole) => {
  const actions = {
    in: () => zoom(plot(), 0.5, 0.5, whole),
    out: () => zoom(plot(), 2, 0.5, whole),
    left: () => move(plot(), -0.25, whole),
    right: () => move(plot(), 0.25, whole),
    all: () => plot().setScale("x", { min: whole[0], max: whole[1] }),
    step: () => plot().setScale("x", { min: closely[0], max: closely[1] }),
  };
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all" };
  chart.querySelectorAll("[data-do]").forEach((button) => {
    button.addEventListener("click", () => actions[button.dataset.do]());
  });
  chart.addEventListener("keydown", (event) => {
    const action = keys[event.key];
    if (event.target.matches("input")) return;
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[action]();
  });
  chart.querySelector(".plot").addEventListener("wheel", (event) => {
    // Scrolling the page stays scrolling the page.
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const over = plot().over.getBoundingClientRect();
    zoom(plot(), event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, (event.clientX - over.left) / over.width, whole);
  }, { passive: false });
};

// Of a linear axis of times all in one unit; of others each in its own, none where uPlot has none.
const ticksOf = (axis, format) => (axis.unit === "ns" && !axis.log
  ? (_, ticks, place, space, step) => instants(ticks, step)
  : (_, ticks) => ticks.map((v) => (v === null ? "" : brief(format(v)))));

const drawLines = (chart, data) => {
  const place = chart.querySelector(".plot");
  const format = { x: FORMATS[data.x.unit], y: FORMATS[data.y.unit] };
  const paths = data.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined;
  const make = () => new uPlot({
    width: widthOf(place),
    height: 260,
    padding: [null, 28, null, null],
    cursor: { drag: { x: true, y: false } },
    scales: {
      x: { time: false, distr: data.x.log ? 3 : 1, log: 2 },
      y: { distr: data.y.log ? 3 : 1, range: data.y.range || undefined },
    },
    axes: [
      { ...lowerAxisLook(), label: data.x.label, values: ticksOf(data.x, format.x) },
      { ...axisLook(), label: data.y.label, values: (_, ticks) => ticks.map((v) => (v === null ? "" : brief(format.y(v)))), size: 80 },
    ],
    series: [
      { label: data.x.label, value: (_, v) => (v === null ? "" : format.x(v)) },
      ...data.series.map((one, number) => ({
        label: one.label,
        ...lineLook(one.like, one.kind),
        ...(one.dotted ? { dash: [2, 3] } : {}),
        width: one.has_points ? 0 : 2,
        paths,
        points: { show: Boolean(one.has_points), size: 8, fill: lineLook(one.like, one.kind).stroke },
        spanGaps: true,
        value: (_, v) => (v === null || v === undefined ? "" : format.y(v)),
      })),
    ],
  }, [data.x.values, ...data.series.map((one) => one.values)], place);
  const whole = [data.x.values[0], data.x.values.at(-1)];
  return { make, whole };
};
