// Stacked columns beside each other: each starts where the one below it ends.
const PALE = "66";

const drawColumns = (chart, data) => {
  const place = chart.querySelector(".plot");
  const tops = data.series[0].values.map(() => 0);
  const stacked = data.series.map((part) => part.values.map((value, column) => {
    tops[column] += value || 0;
    return tops[column];
  }));
  // What stands higher is drawn first, so that the rest covers its lower part.
  const parts = data.series.map((part, number) => ({ ...part, tops: stacked[number] })).reverse();
  const fill = (part) => data.pale.map((isPale) => colour(part.kind) + (isPale ? PALE : ""));
  const bars = (part) => uPlot.paths.bars({
    size: [0.85, 60],
    disp: { fill: { unit: 3, values: () => fill(part) }, stroke: { unit: 3, values: () => data.pale.map(() => colour("paper")) } },
  });
  const whole = [-0.6, data.names.length - 0.4];
  const named = (tick) => data.labels[tick] ?? "";
  // Numbers at multiples of 1, 2 or 5 times a power of ten, whatever columns stand for.
  const numbers = data.labels.map((label, column) => (/^\d+$/.test(label) ? Number(label) : column));
  const splits = (plot, axis, min, max) => {
    const shown = data.labels.map((_, column) => column).filter((column) => column >= min && column <= max);
    const most = Math.max(1, plot.width / 70);
    const least = Math.max(1, shown.length / most, (numbers[shown.at(-1)] - numbers[shown[0]]) / most);
    const power = 10 ** Math.floor(Math.log10(least));
    const step = power * [1, 2, 5, 10].find((n) => power * n >= least);
    return shown.filter((column) => numbers[column] % step === 0);
  };
  const highest = Math.max(0, ...data.ranges.map(([, most]) => most), data.mark ? data.mark[1] : 0);
  const make = () => new uPlot({
    width: widthOf(place),
    height: 260,
    padding: [null, 28, null, null],
    cursor: { drag: { x: true, y: false }, points: { show: false } },
    scales: { x: { time: false, range: (_, min, max) => (min === 0 && max === data.names.length - 1 ? whole : [min, max]) }, y: { range: (_, min, max) => [0, Math.max(max, highest) * 1.08] } },
    axes: [
      { ...lowerAxisLook(), label: [data.label, data.note].filter(Boolean).join("; "), grid: { show: false }, splits, values: (_, ticks) => ticks.map(named) },
      { ...axisLook(), label: data.quantity, values: (_, ticks) => ticks.map((v) => brief(FORMATS.ns(v))), size: 80 },
    ],
    series: [
      { label: data.label, value: (_, v, __, i) => (i === null ? "" : data.names[i]) },
      ...parts.map((part) => ({
        label: part.label,
        stroke: colour(part.kind),
        fill: colour(part.kind),
        width: 1 / devicePixelRatio,
        paths: bars(part),
        points: { show: false },
        value: (_, __, ___, i) => (i === null || i === undefined ? "" : FORMATS.ns(part.values[i])),
      })),
    ],
    hooks: { draw: [(plot) => drawLevels(plot, data)] },
  }, [data.names.map((_, column) => column), ...parts.map((part) => part.tops)], place);
  return { make, whole };
};

// A dashed line over some columns, such as the median of a phase; from the least to the greatest
// that each column stands for; and the one that the title names.
const drawLevels = (plot, { levels, ranges, mark }) => {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.strokeStyle = colour("ink");
  ctx.fillStyle = colour("ink");
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.globalAlpha = 0.4;
  ctx.fillStyle = colour("dtoh");
  ranges.forEach(([least, most], column) => {
    const [left, right] = [column - 0.5, column + 0.5].map((x) => plot.valToPos(x, "x", true));
    const [low, high] = [least, most].map((y) => plot.valToPos(y, "y", true));
    ctx.fillRect(left, high, right - left, Math.max(low - high, 1));
  });
  ctx.globalAlpha = 1;
  ctx.fillStyle = colour("ink");
  if (mark) {
    const [column, height, text] = mark;
    const x = plot.valToPos(column, "x", true);
    ctx.textAlign = x > bbox.left + bbox.width / 2 ? "right" : "left";
    ctx.fillText(`\u25be ${text}`, x, plot.valToPos(height, "y", true) - 4 * devicePixelRatio);
  }
  for (const level of levels) {
    const [left, right] = [level.first - 0.5, level.last + 0.5].map((x) => plot.valToPos(x, "x", true));
    const y = plot.valToPos(level.value, "y", true);
    ctx.setLineDash([6, 4]);
    ctx.beginPath();
    ctx.moveTo(left, y);
    ctx.lineTo(right, y);
    ctx.stroke();
    if (levels.length < 2) continue;
    ctx.setLineDash([]);
    ctx.beginPath();
    ctx.moveTo(right, bbox.top);
    ctx.lineTo(right, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
};
