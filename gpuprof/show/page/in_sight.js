// What a timeline shows beside its lanes: the sums of the time in sight, and what has a name.

// How long a lane's bars last between two times.
const busyWithin = (times, min, max) => {
  let busy = 0;
  for (let i = firstAfter(times.end, min); i < times.start.length && times.start[i] < max; i += 1) {
    const overlap = Math.min(times.end[i], max) - Math.max(times.start[i], min);
    busy += times.busy[i] * overlap / Math.max(1, times.end[i] - times.start[i]);
  }
  return busy;
};

// The kernel of a lane that lasts longest between two times, all its calls together.
const longestWithin = (kernels, min, max) => {
  const lasts = new Map();
  for (let i = 0; i < kernels.start.length && kernels.start[i] < max; i += 1) {
    if (kernels.end[i] <= min || kernels.kernels[i] > 1) continue;
    const overlap = Math.min(kernels.end[i], max) - Math.max(kernels.start[i], min);
    lasts.set(kernels.name[i], (lasts.get(kernels.name[i]) || 0) + overlap);
  }
  let most = null;
  lasts.forEach((length, name) => { if (!most || length > most[1]) most = [name, length]; });
  return most;
};

const SUMS = ["Device", "Lane", "Busy", "Of this time", "Exposed", "Longest kernel"];
const cellsOf = (texts, tag, keys = []) => texts.map((text, place) => {
  const cell = document.createElement(tag);
  cell.textContent = text;
  if (place > 1 && place < 5) cell.className = "number";
  // Tables sort by it.
  if (place in keys) cell.dataset.key = keys[place];
  return cell;
});

// A table of the sums in sight, written anew once after all zooming of a moment.
const sumInSight = (place, lanes) => {
  const summary = place.querySelector("summary");
  const [head, body] = [place.querySelector("thead tr"), place.querySelector("tbody")];
  head.replaceChildren(...cellsOf(SUMS, "th"));
  let waiting = 0;
  const write = (min, max) => {
    const length = Math.max(1, max - min);
    summary.textContent = `In sight: ${FORMATS.ns(length)}, from ${instant(min, length / 100, max)} on`;
    body.replaceChildren(...lanes.filter((lane) => !lane.marks).flatMap((lane) => {
      const exposed = busyWithin(lane.exposed, min, max);
      const busy = exposed + busyWithin(lane.hidden, min, max);
      if (busy === 0) return [];
      const longest = longestWithin(lane.kernels, min, max);
      const row = document.createElement("tr");
      row.append(...cellsOf([
        lane.owner, lane.name, FORMATS.ns(busy), FORMATS.share(busy / length), FORMATS.ns(exposed),
        longest ? `${longest[0]} (${FORMATS.ns(longest[1])})` : "",
      ], "td", { 2: busy, 3: busy, 4: exposed }));
      return [row];
    }));
  };
  return (plot) => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => write(plot.scales.x.min, plot.scales.x.max));
  };
};

// Kernels, ranges and steps whose name has a text in it, by start; lanes keep which of theirs.
const findNamed = (lanes, text) => {
  const wanted = text.trim().toLowerCase();
  const all = [];
  lanes.forEach((lane) => {
    const named = lane.marks || lane.kernels;
    lane.found = new Uint8Array(named.start.length);
    if (!wanted) return;
    for (let i = 0; i < named.start.length; i += 1) {
      if (!named.name[i].toLowerCase().includes(wanted)) continue;
      lane.found[i] = 1;
      all.push([named.start[i], named.end[i]]);
    }
  });
  return all.sort(([start], [other]) => start - other);
};

// How much of the time around one that was found is shown, in lengths of it.
const AROUND = 20;
const lookAt = (plot, [start, end], whole, around = AROUND) => {
  const length = Math.min((end - start || 1) * around, whole[1] - whole[0]);
  const first = Math.min(Math.max((start + end - length) / 2, whole[0]), whole[1] - length);
  plot.setScale("x", { min: first, max: first + length });
};

// Marks what is found while one types; Enter shows the next one, with Shift the one before.
const makeFindable = (form, lanes, plot, whole) => {
  const input = form.querySelector("input");
  const count = form.querySelector(".found");
  // Of many kernels, only the longest of each slice have a name here.
  const among = lanes.some((lane) => lane.kernels.kernels.some((n) => n > 1)) ? " of the longest" : "";
  let [all, at] = [[], -1];
  input.addEventListener("input", () => {
    [all, at] = [findNamed(lanes, input.value), -1];
    const sum = all.reduce((total, [start, end]) => total + end - start, 0);
    if (!input.value.trim()) count.textContent = "";
    else if (!all.length) count.textContent = `none${among}`;
    else count.textContent = `${FORMATS.count(all.length)}${among}, ${FORMATS.ns(sum)} in sum; Enter shows each`;
    plot().redraw();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !all.length) return;
    event.preventDefault();
    at = (at + (event.shiftKey ? -1 : 1) + all.length) % all.length;
    const [start, end] = all[at];
    lookAt(plot(), all[at], whole);
    count.textContent = `${FORMATS.count(at + 1)} of ${FORMATS.count(all.length)}, ${FORMATS.ns(end - start)}`;
  });
};
