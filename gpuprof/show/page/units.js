"use strict";
// Times, sizes and shares for people, as gpuprof shows them elsewhere.
// Three digits, as in sentences.
const decimals = (number) => (Math.abs(number) < 9.995 ? 2 : Math.abs(number) < 99.95 ? 1 : 0);
const scaled = (value, units) => {
  const [unit, factor] = units.find(([, size]) => Math.abs(value) >= size) || units.at(-1);
  const number = value / factor;
  return `${number.toFixed(factor === 1 ? 0 : decimals(number))} ${unit}`;
};
const TIMES = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
const BYTES = [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["KB", 1e3], ["B", 1]];
const POWERS_OF_TWO = [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10], ["B", 1]];
const binary = (value) => {
  const [unit, factor] = POWERS_OF_TWO.find(([, size]) => value >= size) || POWERS_OF_TWO.at(-1);
  return `${Number((value / factor).toFixed(decimals(value / factor)))} ${unit}`;
};
// A time on an axis, in the unit of the largest one, so exact that the next step looks different.
const instant = (value, step, largest = value) => {
  const [unit, factor] = TIMES.find(([, size]) => Math.abs(largest) >= size) || TIMES.at(-1);
  const digits = Math.max(0, Math.ceil(-Math.log10(step / factor) - 1e-9));
  return `${(value / factor).toFixed(Math.min(digits, 9))} ${unit}`;
};
const instants = (ticks, step) => ticks.map((tick) => instant(tick, step, ticks.at(-1)));
const FORMATS = {
  ns: (value) => scaled(value, TIMES),
  bytes: (value) => scaled(value, BYTES),
  binary,
  share: (value) => `${(100 * value).toFixed(1).replace("100.0", "100")} %`,
  count: (value) => value.toLocaleString("en-US"),
};
const brief = (text) => text.replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " ");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
