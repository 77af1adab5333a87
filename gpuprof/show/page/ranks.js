// The ranks of a job on one clock: an image of one pixel per cell, stretched over uPlot's axes.
const RANK_KINDS = ["compute", "communication", "peer", "idle"];
const HATCHED = { communication: 0, peer: 45 };
const NOT_RECORDED = 255;
const FULL = 250;
// Rows are as high as a line of text while all fit, and a pixel at least.
const RANK_ROW = { most: 18, least: 1, all: 640, hatched: 6, named: 12 };
const STEP_LANE = 20;
const LEAST_STEP = 6;

const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const rgb = (name) => {
  const [, hex] = /^#([0-9a-f]{6})$/i.exec(colour(name));
  return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
};

// Lines across a kind of cells, so that it differs in more than its colour.
const hatchOf = (ctx, angle) => {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour("paper");
  pen.lineWidth = 1.2;
  pen.beginPath();
  if (angle) [[-3, 3, 3, -3], [0, 6, 6, 0], [3, 9, 9, 3]].forEach(([x, y, a, b]) => { pen.moveTo(x, y); pen.lineTo(a, b); });
  else { pen.moveTo(0, 3); pen.lineTo(6, 3); }
  pen.stroke();
  return ctx.createPattern(tile, "repeat");
};

// Shares of compute, communication, copies and idle time in a cell; null where nothing was recorded.
const rankCells = (data) => {
  const cells = bytesOf(data.cells);
  return (device, slice) => {
    const at = 3 * (device * data.count + slice);
    if (slice < 0 || slice >= data.count || cells[at] === NOT_RECORDED) return null;
    const shares = [0, 1, 2].map((part) => cells[at + part] / FULL);
    return [...shares, Math.max(0, 1 - shares[0] - shares[1] - shares[2])];
  };
};
const mostOf = (shares) => shares.indexOf(Math.max(...shares));

// The cells of some devices as an image: of all kinds what takes most, the fuller the more; of one
// kind its share, from the paper to the ink.
const rankImage = (cellAt, rows, count, part) => {
  const image = document.createElement("canvas");
  [image.width, image.height] = [count, Math.max(1, rows.length)];
  const ctx = image.getContext("2d");
  const pixels = ctx.createImageData(image.width, image.height);
  const kinds = RANK_KINDS.map(rgb);
  const levels = [...Array(10).keys()].map((level) => rgb(`heat-${level}`));
  rows.forEach((device, row) => {
    for (let slice = 0; slice < count; slice += 1) {
      const shares = cellAt(device, slice);
      if (!shares) continue;
      const kind = mostOf(shares);
      const [look, alpha] = part < 0
        ? [kinds[kind], kind === 3 ? 1 : 0.35 + 0.65 * shares[kind]]
        : [levels[Math.round(9 * shares[part])], 1];
      pixels.data.set([...look, Math.round(255 * alpha)], 4 * (row * count + slice));
    }
  });
  ctx.putImageData(pixels, 0, 0);
  return image;
};

// Keys of the colours: a box each as cells look.
const rankLegend = (place, parts, part) => {
  const key = (name, kind) => {
    const box = document.createElement("canvas");
    box.width = box.height = 14;
    const ctx = box.getContext("2d");
    ctx.fillStyle = colour(kind);
    ctx.fillRect(0, 0, 14, 14);
    if (kind in HATCHED) { ctx.fillStyle = hatchOf(ctx, HATCHED[kind]); ctx.fillRect(0, 0, 14, 14); }
    ctx.strokeStyle = colour("soft");
    ctx.strokeRect(0, 0, 14, 14);
    const text = document.createElement("span");
    text.className = "key";
    text.append(box, ` ${name}`);
    return text;
  };
  const shares = [[0, "0 %"], [3, "33 %"], [6, "67 %"], [9, "100 % of the time"]];
  place.replaceChildren(...(part < 0
    ? parts.map((name, number) => key(name, RANK_KINDS[number]))
    : shares.map(([level, name]) => key(name, `heat-${level}`))));
};

// A rank and the median one in a typical step: bars as on a timeline, and their sums.
const drawRankStep = (place, data, device) => {
  const [name] = data.devices[device];
  const [head, canvas, foot] = ["h3", "canvas", "table"].map((tag) => place.querySelector(tag));
  const shown = [...new Set([device, data.median ?? device])].filter((one) => data.in_step[one]);
  const isThere = shown[0] === device;
  head.textContent = isThere
    ? `${name} in step ${data.in_step[device].step}, ${FORMATS.ns(data.in_step[device].length)}`
    : `${name} has no typical step on this page; --rank reports one rank alone`;
  canvas.hidden = foot.hidden = !isThere;
  place.hidden = false;
  if (!isThere) return;
  const longest = Math.max(...shown.map((one) => data.in_step[one].length));
  const [width, gutter, block] = [widthOf(place) - 2, 110, STEP_LANE * data.lanes.length + 22];
  canvas.width = width * devicePixelRatio;
  canvas.height = block * shown.length * devicePixelRatio;
  canvas.style.width = `${width}px`;
  const ctx = canvas.getContext("2d");
  ctx.scale(devicePixelRatio, devicePixelRatio);
  ctx.font = "12px system-ui, sans-serif";
  shown.forEach((one, number) => {
    const { slices, length } = data.in_step[one];
    const levels = bytesOf(slices);
    const count = levels.length / 2 / data.lanes.length;
    const wide = (width - gutter) * (length / longest) / count;
    ctx.fillStyle = colour("ink");
    ctx.fillText(`${data.devices[one][0]}${one === device ? "" : ", the median one"}`, gutter, number * block + 15);
    data.lanes.forEach(([lane, kind], place_) => {
      const floor = number * block + 20 + STEP_LANE * (place_ + 1) - 2;
      ctx.fillStyle = colour("ink");
      ctx.textAlign = "right";
      ctx.fillText(lane, gutter - 8, floor - 3);
      ctx.textAlign = "left";
      ctx.fillStyle = colour("line");
      ctx.fillRect(gutter, floor, width - gutter, 1);
      ctx.fillStyle = colour(kind);
      for (let slice = 0; slice < count; slice += 1) {
        const [exposed, hidden] = [0, 1].map((half) => levels[(2 * place_ + half) * count + slice] / FULL);
        const [low, high] = [visible(exposed), visible(exposed + hidden)].map((share) => share * STEP_LANE * FILL);
        // From pixel to pixel, so that bars touch.
        const [left, right] = [slice, slice + 1].map((at) => Math.round(gutter + at * wide));
        ctx.fillRect(left, floor - low, right - left, low);
        ctx.globalAlpha = HIDDEN_ALPHA;
        ctx.fillRect(left, floor - high, right - left, Math.max(0, high - low));
        ctx.globalAlpha = 1;
      }
    });
  });
  const row = (texts, tag) => {
    const line = document.createElement("tr");
    line.append(...texts.map((text, column) => {
      const cell = document.createElement(tag);
      cell.textContent = text;
      if (column) cell.className = "number";
      return cell;
    }));
    return line;
  };
  foot.replaceChildren(
    row(["Lane", ...shown.flatMap((one) => [data.devices[one][0], "of it exposed"])], "th"),
    ...data.lanes.map(([lane], place_) => row([lane, ...shown.flatMap((one) => {
      const [exposed, hidden] = data.in_step[one].sums.slice(2 * place_, 2 * place_ + 2);
      return [FORMATS.ns(exposed + hidden), FORMATS.ns(exposed)];
    })], "td")),
  );
};

const drawRanks = (chart, data) => {
  const [place, readout, found] = [".plot", ".readout", ".found"].map((one) => chart.querySelector(one));
  const [show, order] = ["show", "order"].map((one) => chart.querySelector(`[name=${one}]`));
  const [search, step] = [chart.querySelector("input"), chart.parentElement.querySelector(".rank-step")];
  const whole = [data.first, data.first + data.count * data.slice];
  const cellAt = rankCells(data);
  let [rows, image, plot, chosen] = [data.devices.map((_, device) => device), null, null, null];
  const part = () => Number(show.value);
  const rowHeight = () => Math.max(RANK_ROW.least, Math.min(RANK_ROW.most, RANK_ROW.all / Math.max(1, rows.length)));
  const height = () => 6 + Math.round(rows.length * rowHeight()) + AXIS_HEIGHT;

  const paint = () => {
    const { ctx, bbox } = plot;
    const { min, max } = plot.scales.x;
    const pixel = (time) => bbox.left + bbox.width * (time - min) / (max - min);
    const tall = bbox.height / Math.max(1, rows.length);
    const [from, to] = [Math.floor((min - data.first) / data.slice), Math.ceil((max - data.first) / data.slice)].map((n) => Math.min(Math.max(n, 0), data.count));
    const [left, right] = [from, to].map((n) => pixel(data.first + n * data.slice));
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(image, from, 0, to - from, image.height, left, bbox.top, right - left, bbox.height);
    if (part() < 0 && tall >= RANK_ROW.hatched * devicePixelRatio) {
      const looks = RANK_KINDS.map((kind) => (kind in HATCHED ? hatchOf(ctx, HATCHED[kind]) : null));
      const wide = (right - left) / Math.max(1, to - from);
      const lookAt = (device, slice) => { const shares = cellAt(device, slice); return shares && looks[mostOf(shares)]; };
      rows.forEach((device, row) => {
        for (let slice = from, next; slice < to; slice = next) {
          const look = lookAt(device, slice);
          next = slice + 1;
          while (next < to && lookAt(device, next) === look) next += 1;
          if (!look) continue;
          ctx.fillStyle = look;
          ctx.fillRect(left + (slice - from) * wide, bbox.top + row * tall, (next - slice) * wide, tall);
        }
      });
    }
    ctx.fillStyle = colour("paper");
    // Rows that have room for it are apart.
    if (tall >= RANK_ROW.hatched * devicePixelRatio) rows.forEach((_, row) => ctx.fillRect(bbox.left, bbox.top + row * tall, bbox.width, 1));
    ctx.fillStyle = colour("ink");
    const borders = data.steps.filter((start) => start >= min && start <= max).map(pixel);
    // Closer ones would hide what lies between them.
    if (borders.at(-1) - borders[0] >= (borders.length - 1) * LEAST_STEP * devicePixelRatio) borders.forEach((x) => ctx.fillRect(x, bbox.top, 1, bbox.height));
    ctx.restore();
    ctx.save();
    ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    ctx.fillStyle = colour("worse");
    rows.forEach((device, row) => {
      if (data.devices[device][2]) ctx.fillText("\u25c0", bbox.left + bbox.width, bbox.top + (row + 0.5) * tall);
    });
    if (rows.includes(chosen)) {
      ctx.strokeStyle = colour("found");
      ctx.lineWidth = 2 * devicePixelRatio;
      ctx.strokeRect(bbox.left, bbox.top + rows.indexOf(chosen) * tall, bbox.width, Math.max(tall, 3));
    }
    ctx.restore();
  };

  const said = (shares) => shares.map((share, number) => `${data.parts[number].split(" ")[0]} ${FORMATS.share(share)}`).join(", ");
  const tell = (device, time) => {
    const [name, ratio, late] = data.devices[device];
    const shares = time === null ? null : cellAt(device, Math.floor((time - data.first) / data.slice));
    const totals = data.totals[device];
    const beside = ratio === null ? "" : `; own time ${ratio.toFixed(3)} of the median`;
    readout.textContent = `${name}${late ? `, ${late}` : ""}${time === null ? "" : ` at ${instant(time, data.slice)}: ${shares ? said(shares) : "not recorded"}`}; in all ${said([...totals, 1 - totals.reduce((a, b) => a + b, 0)])}${beside}`;
  };
  const deviceAt = (top) => rows[Math.min(rows.length - 1, Math.max(0, Math.floor(top / plot.over.clientHeight * rows.length)))];
  const choose = (device) => {
    chosen = device;
    tell(device, null);
    drawRankStep(step, data, device);
    plot.redraw(false);
  };

  const arrange = () => {
    const wanted = search.value.trim().toLowerCase();
    // A number is that of a rank, whole; other texts are parts of names.
    const fits = ([name, , late]) => (/^\d+$/.test(wanted) ? new RegExp(`(^|\\D)${wanted}(\\D|$)`).test(name) : `${name} ${late}`.toLowerCase().includes(wanted));
    const ordered = order.value === "late" ? data.late_first : data.devices.map((_, device) => device);
    rows = ordered.filter((device) => fits(data.devices[device]));
    found.textContent = wanted ? `${FORMATS.count(rows.length)} of ${FORMATS.count(data.devices.length)}` : "";
    image = rankImage(cellAt, rows, data.count, part());
    rankLegend(chart.parentElement.querySelector(".legend"), data.parts, part());
  };
  const again = () => {
    arrange();
    plot.setSize({ width: widthOf(place), height: height() });
    plot.redraw(false, true);
    if (search.value.trim() && rows.length === 1) choose(rows[0]);
  };
  [show, order].forEach((one) => one.addEventListener("change", again));
  search.addEventListener("input", again);
  chart.addEventListener("keydown", (event) => {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!by || !rows.length || event.target.matches("input, select")) return;
    event.preventDefault();
    const at = chosen === null ? -1 : rows.indexOf(chosen);
    choose(rows[Math.min(rows.length - 1, Math.max(0, at + by))]);
  });

  const longest = Math.max(...data.devices.map(([name]) => name.length));
  const splits = () => {
    const least = RANK_ROW.named / rowHeight();
    const stride = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((step) => step >= least) || least;
    return rows.map((_, row) => row).filter((row) => row % stride === 0);
  };
  const make = () => {
    arrange();
    plot = new uPlot({
      width: widthOf(place),
      height: height(),
      padding: [6, 18, 0, null],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false } },
      scales: { x: { time: false, range: (_, min, max) => [min, max] }, y: { range: () => [0, Math.max(1, rows.length)] } },
      axes: [
        { ...lowerAxisLook(), values: (_, ticks, axis, space, gap) => instants(ticks, gap), label: "time since the recording's origin" },
        {
          ...axisLook(), size: () => Math.min(7 * longest + 15, 0.4 * place.clientWidth), grid: { show: false }, ticks: { show: false },
          splits: () => splits().map((row) => rows.length - row - 0.5),
          values: () => splits().map((row) => data.devices[rows[row]][0]),
          font: "12px system-ui, sans-serif",
        },
      ],
      series: [{}, { show: true, paths: () => null, points: { show: false } }],
      hooks: {
        draw: [(drawn) => { plot = drawn; paint(); }],
        setCursor: [({ cursor: { left, top } }) => {
          if (left >= 0 && top >= 0 && rows.length) tell(deviceAt(top), plot.posToVal(left, "x"));
        }],
      },
    }, [whole, [null, null]], place);
    plot.over.addEventListener("click", (event) => { if (rows.length) choose(deviceAt(event.clientY - plot.over.getBoundingClientRect().top)); });
    if (chosen !== null) drawRankStep(step, data, chosen);
    return plot;
  };
  return { make, whole };
};
