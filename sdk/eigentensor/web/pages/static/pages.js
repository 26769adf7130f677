// Charts out of tables, names to copy, and a fresh look after the connection was lost. Pages can be read without it.
"use strict";

document.documentElement.classList.add("scripted");

document.addEventListener("click", async ({ target }) => {
  const button = target.closest("button[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.classList.add("done");
  setTimeout(() => button.classList.remove("done"), 1200);
});

const drawn = new Map(); // uPlot by its figure

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A number of few digits, also where it is small. */
function short(value) {
  return String(Number(value.toPrecision(3)));
}

/** The columns of a figure's table as numbers; what has no value is null. */
function columns(table) {
  const rows = [...table.tBodies[0].rows].map((row) =>
    [...row.cells].map((cell) => ("value" in cell.dataset ? Number(cell.dataset.value) : null)),
  );
  return rows.length ? rows[0].map((_, i) => rows.map((row) => row[i])) : [];
}

function draw(figure) {
  const table = figure.querySelector("details table"), place = figure.querySelector(".canvas");
  const data = columns(table);
  if (!data.length || !place.clientWidth) return;
  const labels = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const bars = figure.dataset.chart === "bars";
  const strokes = (bars ? ["--edge", "--accent"] : ["--accent", "--good", "--warn", "--bad", "--text", "--muted"]).map(colour);
  const font = "12px system-ui, sans-serif";
  const axis = { stroke: colour("--muted"), font, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const series = labels.map((label, i) =>
    i === 0 ? { label } : {
      label,
      stroke: strokes[(i - 1) % strokes.length],
      fill: bars ? strokes[(i - 1) % strokes.length] : undefined,
      width: bars ? 0 : 1.5,
      spanGaps: !bars,
      points: { show: data[i].filter((value) => value !== null).length < 3 },
      paths: bars ? uPlot.paths.bars({ size: [i === 1 ? 0.85 : 0.4, 24] }) : undefined,
    },
  );
  const lowest = Math.min(0, ...data.slice(1).flat().filter((value) => value !== null));
  const margin = bars ? (data[0].at(-1) - data[0][0]) / Math.max(1, data[0].length - 1) : 0;
  drawn.get(figure)?.destroy();
  drawn.set(figure, new uPlot({
    width: place.clientWidth,
    height: 158,
    series,
    cursor: { y: false, drag: { setScale: false } },
    legend: { show: labels.length > 2, live: false },
    scales: { x: { time: false, range: (_, first, last) => [first - margin, last + margin] }, y: { range: (_, __, most) => [lowest, most > lowest ? most * 1.1 : lowest + 1] } },
    axes: [{ ...axis, grid: { show: false }, space: 80, size: 28, label: labels[0], labelSize: 18, labelFont: font }, { ...axis, size: 64, space: 32, values: (_, ticks) => ticks.map(short) }],
  }, data, place));
}

function drawAll() {
  for (const [figure, chart] of drawn) {
    if (figure.isConnected) continue;
    chart.destroy();
    drawn.delete(figure);
  }
  if (window.uPlot) document.querySelectorAll("figure[data-chart]").forEach(draw);
}

document.addEventListener("DOMContentLoaded", () => requestAnimationFrame(() => setTimeout(drawAll))); // words first
document.addEventListener("htmx:afterSettle", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
let resizing;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(drawAll, 100);
});

// What happened while nobody listened is told by a fresh look.
let source, opened = false;
document.addEventListener("htmx:sseOpen", ({ detail }) => {
  source = detail.source;
  const live = document.getElementById("live");
  if (opened && live) htmx.trigger(live, "sse:changed");
  opened = true;
});

// A browser has six connections to one server: pages that nobody sees leave theirs to others.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) source?.close();
  else if (source?.readyState === EventSource.CLOSED) source.onerror(new Event("error")); // connects again
});
