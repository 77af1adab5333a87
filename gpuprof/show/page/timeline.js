// A timeline of lanes: uPlot gives axis, zoom and cursor; the lanes are drawn on its canvas.
const LANE_HEIGHT = 22;
// All lanes of a chart fit on one sheet.
const PAPER_HEIGHT = 800;
const FILL = 0.85;
const LEAST = 0.15;
const HIDDEN_ALPHA = 0.4;
// The time to which a finding leads, and how much around it is shown, in lengths of it.
const SEEN_ALPHA = 0.25;
const AROUND_SEEN = 4;
// A box narrower than this has no name in it.
const LEAST_NAMED = 28;
const LEAST_FRAMED = 6;
// Kernels that are named at once where they run beside each other.
const MOST_NAMED = 3;

// Pauses, lengths and idle times become starts, ends and busy times.
const decoded = (flat, unit, first) => {
  const count = flat.length / 3;
  const [start, end, busy] = [0, 1, 2].map(() => new Float64Array(count));
  for (let i = 0, at = 0; i < count; i += 1) {
    const begin = at + flat[3 * i];
    at = begin + flat[3 * i + 1];
    start[i] = first + begin * unit;
    end[i] = first + at * unit;
    busy[i] = (flat[3 * i + 1] - flat[3 * i + 2]) * unit;
  }
  return { start, end, busy };
};

// Gaps between starts, lengths and places of names become starts, ends and names; times may overlap.
const decodedNamed = (flat, width, unit, names, first) => {
  const count = flat.length / width;
  const [start, end, reach] = [0, 1, 2].map(() => new Float64Array(count));
  const [name, kernels] = [new Array(count), new Array(count)];
  for (let i = 0, at = 0, last = -Infinity; i < count; i += 1) {
    at += flat[width * i];
    start[i] = first + at * unit;
    end[i] = first + (at + flat[width * i + 1]) * unit;
    last = Math.max(last, end[i]);
    // The latest end so far.
    reach[i] = last;
    name[i] = names[flat[width * i + 2]];
    kernels[i] = width > 3 ? flat[width * i + 3] : 1;
  }
  return { start, end, reach, name, kernels };
};

// Places of those that last over a time, the one that began last first.
const openAt = (named, time) => {
  const places = [];
  for (let i = firstAfter(named.start, time) - 1; i >= 0 && named.reach[i] > time; i -= 1) {
    if (named.end[i] > time) places.push(i);
  }
  return places;
};

// Place of the first end after a time.
const firstAfter = (ends, time) => {
  let [low, high] = [0, ends.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ends[middle] > time) high = middle; else low = middle + 1;
  }
  return low;
};

// Share of each pixel column that is busy: however many intervals fall into it.
const columns = (times, min, max, width) => {
  const shares = new Float32Array(width);
  const perPixel = (max - min) / width;
  for (let i = firstAfter(times.end, min); i < times.start.length && times.start[i] < max; i += 1) {
    const [left, right] = [(times.start[i] - min) / perPixel, (times.end[i] - min) / perPixel];
    const density = times.busy[i] / (times.end[i] - times.start[i]);
    const last = Math.min(width - 1, Math.floor(right));
    for (let pixel = Math.max(0, Math.floor(left)); pixel <= last; pixel += 1) {
      shares[pixel] += (Math.min(right, pixel + 1) - Math.max(left, pixel)) * density;
    }
  }
  return shares;
};

const visible = (share) => (share > 0 ? Math.min(1, Math.max(share, LEAST)) : 0);

// A name in a box where there is room for a part of it.
const paintName = (ctx, name, left, right, floor, height) => {
  const width = right - left;
  if (width < LEAST_NAMED * devicePixelRatio) return;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, floor - height, width - 2 * devicePixelRatio, height);
  ctx.clip();
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  const hasRoom = ctx.measureText(name).width <= width - 6 * devicePixelRatio;
  // The number is what tells steps apart.
  ctx.fillText(hasRoom ? name : name.replace(/^step /, ""), left + 3 * devicePixelRatio, floor - height * 0.3);
  ctx.restore();
};

// Runs a function on the left and right end of each that is in sight.
const inSight = (plot, named, paintOne) => {
  const { min, max } = plot.scales.x;
  const { left, width } = plot.bbox;
  const toPixel = (time) => left + width * (Math.min(Math.max(time, min), max) - min) / (max - min);
  const before = openAt(named, min).at(-1);
  const first = before === undefined ? firstAfter(named.start, min) : before;
  for (let i = first; i < named.start.length && named.start[i] < max; i += 1) {
    if (named.end[i] > min) paintOne(i, toPixel(named.start[i]), toPixel(named.end[i]));
  }
};

// A frame around what was found by its name; a line above where many are in few pixels.
const paintFound = (plot, named, found, floor, height) => {
  if (!found) return;
  const { ctx } = plot;
  ctx.strokeStyle = ctx.fillStyle = colour("found");
  ctx.lineWidth = 2 * devicePixelRatio;
  inSight(plot, named, (i, left, right) => {
    if (!found[i]) return;
    if (right - left < LEAST_FRAMED * devicePixelRatio) {
      ctx.fillRect(left, floor - height, Math.max(right - left, devicePixelRatio), 3 * devicePixelRatio);
    } else ctx.strokeRect(left, floor - height * FILL, right - left, height * FILL);
  });
};

// Steps and ranges: a frame each, and its name where there is room.
const paintMarks = (plot, marks, floor, height) => {
  const { ctx } = plot;
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.lineWidth = 1;
  let last = -Infinity;
  inSight(plot, marks, (i, left, right) => {
    // What ends in the pixel in which another one did is not seen.
    if (right <= last + 0.5) return;
    last = right;
    ctx.fillStyle = colour(i % 2 ? "mark-odd" : "mark-even");
    ctx.fillRect(left, floor - height * FILL, Math.max(right - left, 1), height * FILL);
    ctx.fillStyle = colour("soft");
    ctx.fillRect(left, floor - height * FILL, 1, height * FILL);
    ctx.fillStyle = colour("ink");
    paintName(ctx, marks.name[i], left, right, floor, height * FILL);
  });
};

// The names of kernels in their bars, as soon as one looks so near that they fit.
const paintNames = (plot, kernels, floor, height) => {
  const { ctx } = plot;
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.fillStyle = colour("paper");
  const { min, max } = plot.scales.x;
  const widest = (max - min) * LEAST_NAMED / Math.max(1, plot.bbox.width / devicePixelRatio);
  inSight(plot, kernels, (i, left, right) => {
    if (kernels.kernels[i] > 1 || kernels.end[i] - kernels.start[i] < widest) return;
    ctx.fillRect(left, floor - height * FILL, 1, height * FILL);
    paintName(ctx, kernels.name[i], left, right, floor, height * FILL);
  });
};

// What of a lane is on the critical path; in the lane of the host nothing else is.
const paintPath = (plot, lane, floor, height) => {
  const { ctx } = plot;
  inSight(plot, lane.path, (i, left, right) => {
    if (lane.lane === "path") {
      ctx.fillStyle = colour("mark-odd");
      ctx.fillRect(left, floor - height, right - left, height);
      ctx.fillStyle = colour("ink");
      paintName(ctx, lane.path.name[i], left, right, floor, height);
    }
    paintMark(ctx, MARKS.path[1], left, right, floor, height);
  });
};

// What has lanes below each other, which hooks draw, on an axis of time.
const plotOfLanes = (place, { labels, whole, axis, hooks, height = LANE_HEIGHT }) => {
  const longest = Math.max(...labels.map((label) => label.length));
  return new uPlot({
    width: widthOf(place),
    height: Math.round(isOnPaper ? Math.min(labels.length * height, PAPER_HEIGHT) : labels.length * height) + AXIS_HEIGHT,
    padding: [0, null, 0, null],
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false } },
    scales: { x: { time: false, range: (_, min, max) => [min, max] }, y: { range: [0, labels.length] } },
    axes: [
      { ...lowerAxisLook(), values: (_, ticks, __, space, step) => instants(ticks, step), label: axis },
      {
        ...axisLook(),
        size: () => Math.min(Math.max(7 * longest + 15, 120), 0.45 * place.clientWidth),
        grid: { show: false },
        ticks: { show: false },
        splits: () => labels.map((_, number) => labels.length - number - 0.5),
        values: () => labels,
        font: "12px system-ui, sans-serif",
      },
    ],
    series: [{}, { show: true, paths: () => null, points: { show: false } }],
    hooks,
  }, [whole, [null, null]], place);
};

// The lane under the cursor, and the time; null where it is nowhere.
const pointedAt = (plot, lanes) => {
  const { left, top } = plot.cursor;
  if (left < 0 || top < 0) return null;
  const lane = lanes[Math.min(lanes.length - 1, Math.floor(top / plot.over.clientHeight * lanes.length))];
  const time = plot.posToVal(left, "x");
  const pixel = (plot.scales.x.max - plot.scales.x.min) / plot.over.clientWidth;
  return { lane, time, where: `${lane.owner}, ${lane.name} at ${instant(time, Math.max(1, pixel))}` };
};

const drawTimeline = (chart, data) => {
  const place = chart.querySelector(".plot");
  const readout = chart.querySelector(".readout");
  const all = data.lanes.map((lane) => ({
    ...lane,
    path: lane.path && decodedNamed(lane.path, 3, data.unit, data.names, data.first),
    exposed: decoded(lane.exposed || [], data.unit, data.first),
    hidden: decoded(lane.hidden || [], data.unit, data.first),
    kernels: decodedNamed(lane.kernels || [], 4, data.unit, data.names, data.first),
    marks: lane.marks && decodedNamed(lane.marks, 3, data.unit, data.names, data.first),
  }));
  // The host's part of the critical path has a lane where the path is shown.
  const lanes = [];
  let isPathShown = false;
  let seen = null;
  const isFirst = (place_) => place_ === 0 || lanes[place_].owner !== lanes[place_ - 1].owner;
  const label = (lane, place_) => {
    if (isFirst(place_)) return `${lane.owner} \u00b7 ${lane.name}`;
    // Levels of ranges below the first one.
    return lane.marks && lanes[place_ - 1].name === lane.name ? "" : lane.name;
  };
  const whole = [data.first, data.first + Math.max(1, data.length)];

  const paint = (plot) => {
    const { ctx, bbox } = plot;
    const { min, max } = plot.scales.x;
    const width = Math.max(1, Math.round(bbox.width));
    const height = bbox.height / lanes.length;
    ctx.save();
    lanes.forEach((lane, number) => {
      const floor = bbox.top + height * (number + 1) - 1;
      ctx.fillStyle = colour("line");
      ctx.fillRect(bbox.left, floor, width, isFirst(number + 1 < lanes.length ? number + 1 : 0) ? 2 : 1);
      if (lane.marks) {
        paintMarks(plot, lane.marks, floor, height);
        paintFound(plot, lane.marks, lane.found, floor, height);
        return;
      }
      ctx.fillStyle = colour(lane.kind);
      const exposed = columns(lane.exposed, min, max, width);
      const hidden = columns(lane.hidden, min, max, width);
      for (let pixel = 0; pixel < width; pixel += 1) {
        const low = visible(exposed[pixel]) * height * FILL;
        const high = Math.max(low, visible(exposed[pixel] + hidden[pixel]) * height * FILL);
        if (high === 0) continue;
        ctx.globalAlpha = 1;
        ctx.fillRect(bbox.left + pixel, floor - low, 1, low);
        ctx.globalAlpha = HIDDEN_ALPHA;
        ctx.fillRect(bbox.left + pixel, floor - high, 1, high - low);
      }
      ctx.globalAlpha = 1;
      paintNames(plot, lane.kernels, floor, height);
      if (isPathShown && lane.path) paintPath(plot, lane, floor, height * FILL);
      paintFound(plot, lane.kernels, lane.found, floor, height);
    });
    if (seen) lanes.forEach((lane, number) => {
      if (lane.owner !== seen.owner) return;
      const [left, right] = seen.times.map((time) => plot.valToPos(time, "x", true));
      const [low, high] = [Math.max(left, bbox.left), Math.min(right, bbox.left + bbox.width)];
      if (high < low) return;
      ctx.globalAlpha = SEEN_ALPHA;
      ctx.fillStyle = colour("mark");
      ctx.fillRect(low, bbox.top + height * number, Math.max(high - low, 2 * devicePixelRatio), height);
      ctx.globalAlpha = 1;
    });
    ctx.restore();
  };

  const kernelAt = (lane, time) => {
    const open = openAt(lane.kernels, time);
    if (!open.length) return "";
    const [i] = open;
    if (lane.kernels.kernels[i] > 1) {
      return `; ${FORMATS.count(lane.kernels.kernels[i])} kernels here, the longest: ${lane.kernels.name[i]}`;
    }
    const shown = open.slice(0, MOST_NAMED).map((k) => `${lane.kernels.name[k]} (${FORMATS.ns(lane.kernels.end[k] - lane.kernels.start[k])})`);
    const more = open.length > shown.length ? ` and ${open.length - shown.length} more` : "";
    return `; ${shown.join(", ")}${more}`;
  };

  const at = (lane, time) => {
    const [onPath] = isPathShown && lane.path ? openAt(lane.path, time) : [];
    if (onPath !== undefined) return `${lane.path.name[onPath]} for ${FORMATS.ns(lane.path.end[onPath] - lane.path.start[onPath])}, on the critical path`;
    if (lane.marks) {
      const [i] = openAt(lane.marks, time);
      return i === undefined ? "nothing" : `${lane.marks.name[i]}, ${FORMATS.ns(lane.marks.end[i] - lane.marks.start[i])}`;
    }
    for (const [times, how] of [[lane.exposed, "exposed"], [lane.hidden, "hidden"]]) {
      const i = firstAfter(times.end, time);
      if (i < times.start.length && times.start[i] <= time) {
        const length = times.end[i] - times.start[i];
        const share = times.busy[i] < length ? `, busy ${FORMATS.share(times.busy[i] / length)} of it` : "";
        return `${how} for ${FORMATS.ns(length)}${share}${kernelAt(lane, time)}`;
      }
    }
    return "nothing";
  };

  const tell = (plot) => {
    const pointed = pointedAt(plot, lanes);
    readout.textContent = pointed ? `${pointed.where}: ${at(pointed.lane, pointed.time)}` : "\u00a0";
  };

  const sum = sumInSight(chart.parentElement.querySelector(".sums"), lanes);
  const make = () => {
    lanes.splice(0, lanes.length, ...all.filter((lane) => lane.lane !== "path" || isPathShown));
    return plotOfLanes(place, {
      labels: lanes.map(label),
      whole,
      axis: "time since the recording's origin",
      hooks: { draw: [paint], setCursor: [tell], setScale: [sum] },
    });
  };
  const find = (plot, again) => {
    makeFindable(chart.querySelector(".find"), all, plot, whole);
    document.querySelectorAll("button.seen").forEach((place_) => {
      place_.hidden = false;
      place_.addEventListener("click", () => {
        const times = [Number(place_.dataset.from), Number(place_.dataset.to)];
        seen = { owner: place_.dataset.owner, times };
        // What is in sight already would not be drawn again.
        plot().redraw();
        const { closely } = data;
        const isClose = closely && times[0] >= closely[0] && times[1] <= closely[1];
        if (isClose) plot().setScale("x", { min: closely[0], max: closely[1] });
        else lookAt(plot(), times, whole, AROUND_SEEN);
        chart.scrollIntoView({ block: "center" });
        chart.focus({ preventScroll: true });
      });
    });
    const button = chart.querySelector(".path");
    if (button) button.addEventListener("click", () => {
      isPathShown = !isPathShown;
      button.setAttribute("aria-pressed", String(isPathShown));
      chart.parentElement.querySelector(".path-words").hidden = !isPathShown;
      again();
      if (isPathShown) plot().setScale("x", { min: data.path[0], max: data.path[1] });
    });
  };
  return { make, whole, find };
};
