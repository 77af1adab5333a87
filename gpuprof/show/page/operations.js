// The operations of a step of two recordings, one above the other, and how they are marked.
// Of each mark its sign and its words, the colour of its edge, and at which ends of a box it lies.
const MARKS = [
  null,
  { sign: "\u25b2", words: "longer", colour: "worse", top: true },
  { sign: "\u25bc", words: "shorter", colour: "better", bottom: true },
  { sign: "\u25cf", words: "only here", colour: "found", top: true, bottom: true },
];
// Few lanes are taller.
const [TALL, MOST_TALL] = [34, 12];
const EDGE = 3;
const STRIPES = 7;
// Each name has its own hue; the next one is far from it.
const GOLDEN_ANGLE = 137.508;
const hueOf = (number) => {
  const isDark = document.documentElement.dataset.theme === "dark";
  const lightness = (isDark ? 26 : 84) + (isDark ? 8 : -9) * (number % 2);
  return `hsl(${(number * GOLDEN_ANGLE) % 360} ${isDark ? 35 : 60}% ${lightness}%)`;
};

const paintStripes = (ctx, left, top, width, height) => {
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  ctx.beginPath();
  ctx.lineWidth = devicePixelRatio;
  ctx.globalAlpha = 0.5;
  const gap = STRIPES * devicePixelRatio;
  for (let x = left - height; x < left + width; x += gap) {
    ctx.moveTo(x, top + height);
    ctx.lineTo(x + height, top);
  }
  ctx.stroke();
  ctx.restore();
};

// One lane: a box per operation in the colour of its name; what is marked has edges and stripes.
const paintOperations = (plot, lane, floor, height) => {
  const { ctx } = plot;
  const { kernels, places, changes } = lane;
  const [full, edge] = [height * FILL, EDGE * devicePixelRatio];
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  inSight(plot, kernels, (i, left, right) => {
    const width = Math.max(right - left, devicePixelRatio);
    const mark = MARKS[changes[2 * i]];
    ctx.fillStyle = kernels.end[i] > kernels.start[i] ? hueOf(places[i]) : colour("ink");
    ctx.fillRect(left, floor - full, width, full);
    ctx.fillStyle = colour("soft");
    if (width > LEAST_FRAMED * devicePixelRatio) ctx.fillRect(left, floor - full, devicePixelRatio, full);
    if (mark) {
      ctx.fillStyle = ctx.strokeStyle = colour(mark.colour);
      if (mark.top) ctx.fillRect(left, floor - full, Math.max(width, 2 * devicePixelRatio), edge);
      if (mark.bottom) ctx.fillRect(left, floor - edge, Math.max(width, 2 * devicePixelRatio), edge);
      if (width > STRIPES * devicePixelRatio) paintStripes(ctx, left, floor - full, width, full);
    }
    ctx.fillStyle = colour("ink");
    paintName(ctx, mark ? `${mark.sign} ${kernels.name[i]}` : kernels.name[i], left, right, floor, full);
  });
};

const drawOperations = (chart, data) => {
  const [place, readout, select] = [".plot", ".readout", "select"].map((one) => chart.querySelector(one));
  const lists = [...chart.parentElement.querySelectorAll(".largest")];
  // A little more than the longest step, so that its end is seen.
  const whole = [0, 1.01 * Math.max(1, data.baseline.length, ...data.candidates.map((one) => one.length))];
  const lanes = [];
  let lit = null;

  const lanesOf = (side, other, marks) => side.lanes.map((lane, number) => ({
    owner: side.label,
    other: other.label,
    name: lane.name,
    usual: lane.usual,
    changes: marks[number],
    places: lane.operations.filter((_, n) => n % 3 === 2),
    kernels: decodedNamed(lane.operations, 3, 1, data.names, 0),
  }));
  const choose = () => {
    const number = select ? Number(select.value) : 0;
    const [base, other] = [data.baseline, data.candidates[number]];
    const count = base.lanes.length;
    lanes.splice(0, lanes.length, ...lanesOf(base, other, other.marks.slice(0, count)), ...lanesOf(other, base, other.marks.slice(count)));
    lists.forEach((list, one) => { list.hidden = !isOnPaper && one !== number; });
  };

  const paint = (plot) => {
    const { ctx, bbox } = plot;
    const height = bbox.height / lanes.length;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    lanes.forEach((lane, number) => {
      const floor = bbox.top + height * (number + 1) - 1;
      ctx.fillStyle = colour(lanes[number + 1] && lanes[number + 1].owner !== lane.owner ? "ink" : "line");
      ctx.fillRect(bbox.left, floor, bbox.width, 1);
      paintOperations(plot, lane, floor, height);
      paintFound(plot, lane.kernels, lane.found, floor, height);
    });
    if (lit) {
      const [left, right] = lit.times.map((time) => plot.valToPos(time, "x", true));
      const [first, last] = lit.isUpper ? [0, data.baseline.lanes.length] : [data.baseline.lanes.length, lanes.length];
      ctx.globalAlpha = 0.25;
      ctx.fillStyle = colour("mark");
      ctx.fillRect(left, bbox.top + first * height, Math.max(right - left, 2 * devicePixelRatio), (last - first) * height);
    }
    ctx.restore();
  };

  const at = (lane, time) => {
    const [i] = openAt(lane.kernels, time);
    if (i === undefined) return "nothing";
    const [mark, usual, theirs] = [MARKS[lane.changes[2 * i]], lane.usual[i], lane.changes[2 * i + 1]];
    const usually = usual === lane.kernels.end[i] - lane.kernels.start[i] ? "" : `, usually ${FORMATS.ns(usual)}`;
    const beside = theirs ? `; ${FORMATS.ns(theirs)} in ${lane.other}` : "";
    return `${lane.kernels.name[i]} for ${FORMATS.ns(lane.kernels.end[i] - lane.kernels.start[i])}${usually}${beside}${mark ? ` (${mark.words})` : ""}`;
  };
  const tell = (plot) => {
    const pointed = pointedAt(plot, lanes);
    readout.textContent = pointed ? `${pointed.where}: ${at(pointed.lane, pointed.time)}` : "\u00a0";
  };

  const make = () => {
    choose();
    const label = (lane, number) => (number && lanes[number - 1].owner === lane.owner ? lane.name : `${lane.owner} \u00b7 ${lane.name}`);
    return plotOfLanes(place, { labels: lanes.map(label), whole, axis: "time since the start of the step", hooks: { draw: [paint], setCursor: [tell] }, height: lanes.length > MOST_TALL ? LANE_HEIGHT : TALL });
  };
  const find = (plot, again) => {
    makeFindable(chart.querySelector(".find"), lanes, plot, whole);
    if (select) select.addEventListener("change", () => { lit = null; again(); });
    lists.forEach((list) => list.addEventListener("click", (event) => {
      if (!event.target.matches("button")) return;
      const { from, to, side } = event.target.dataset;
      lit = { times: [Number(from), Number(to)], isUpper: side === "0" };
      lookAt(plot(), lit.times, whole);
      chart.scrollIntoView({ block: "nearest" });
    }));
  };
  return { make, whole, find };
};
