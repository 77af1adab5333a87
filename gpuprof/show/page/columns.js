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
  const named = (tick) => (Number.isInteger(tick) ? data.labels[tick] ?? "" : "");
  const make = () => new uPlot({
    width: widthOf(place),
    height: 260,
    padding: [null, 28, null, null],
    cursor: { drag: { x: true, y: false }, points: { show: false } },
    scales: { x: { time: false, range: (_, min, max) => (min === 0 && max === data.names.length - 1 ? whole : [min, max]) }, y: { range: (_, min, max) => [0, max * 1.04] } },
    axes: [
      { ...lowerAxisLook(), label: data.label, grid: { show: false }, values: (_, ticks) => ticks.map(named) },
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
    hooks: { draw: [(plot) => drawLevels(plot, data.levels)] },
  }, [data.names.map((_, column) => column), ...parts.map((part) => part.tops)], place);
  return { make, whole };
};

// A dashed line over some columns, such as the median of a phase, with its name.
const drawLevels = (plot, levels) => {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.strokeStyle = colour("ink");
  ctx.fillStyle = colour("ink");
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
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
