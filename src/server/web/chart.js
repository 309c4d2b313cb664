// Charts of values over time as SVG, drawn at the size they have on the screen, with axes.

const SVG = 'http://www.w3.org/2000/svg';
const LEFT = 44, RIGHT = 10, TOP = 10, BOTTOM = 22;  // room for the numbers of the axes, in pixels

function svg(name, attributes, text) {
  const out = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) out.setAttribute(key, value);
  if (text !== undefined) out.textContent = text;
  return out;
}

// A tidy number at or above `value`: 1, 2, 4 or 10 times a power of ten, so that a half of it is tidy too.
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 2)));
  return [1, 2, 4, 10].map((factor) => factor * power).find((each) => each >= value && each >= 2);
}

const short = (value) => (value >= 10000 ? `${value / 1000}k` : value.toLocaleString('en'));
const ago = (seconds) => (seconds >= 120 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds)} s`);

// `series` are lists of [seconds, value], a value of null is a gap; `span` is {now, seconds}. `top` fixes the upper end.
export function drawChart(element, series, span, {top, unit = ''} = {}) {
  const width = element.clientWidth, height = element.clientHeight;
  if (!width || !height) return;
  const values = series.flatMap((points) => points.map((point) => point[1])).filter((value) => value !== null);
  const most = top ?? ceiling(Math.max(...values, 1));
  const x = (t) => LEFT + (width - LEFT - RIGHT) * (1 - (span.now - t) / span.seconds);
  const y = (value) => height - BOTTOM - (height - TOP - BOTTOM) * Math.min(1, value / most);
  const parts = [];
  for (const value of [0, most / 2, most]) {
    parts.push(svg('line', {class: 'grid', x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value)}),
               svg('text', {class: 'y', x: LEFT - 8, y: y(value) + 4, 'text-anchor': 'end'}, short(value) + unit));
  }
  for (const [part, anchor] of [[1, 'start'], [0.5, 'middle'], [0, 'end']]) {
    parts.push(svg('text', {class: 'x', x: x(span.now - part * span.seconds), y: height - 5, 'text-anchor': anchor},
                   part ? `${ago(part * span.seconds)} ago` : 'now'));
  }
  series.forEach((points, i) => {
    let path = '';
    points.forEach(([t, value], at) => {
      const begins = at === 0 || points[at - 1][1] === null;
      if (value !== null) path += `${begins ? 'M' : 'L'}${x(t).toFixed(1)},${y(value).toFixed(1)}${begins ? 'h0' : ''}`;
    });
    parts.push(svg('path', {class: `line l${i}`, d: path, 'data-points': points.length}));
    // A dot where the line ends now, and where it is a single point.
    const none = (at) => (points[at]?.[1] ?? null) === null;
    points.forEach(([t, value], at) => {
      if (none(at) || (at < points.length - 1 && !(none(at - 1) && none(at + 1)))) return;
      parts.push(svg('circle', {class: `dot d${i}`, cx: x(t), cy: y(value), r: 3}));
    });
  });
  if (!values.length) {
    parts.push(svg('text', {class: 'none', x: (LEFT + width - RIGHT) / 2, y: y(most * 0.75) + 4, 'text-anchor': 'middle'}, 'none yet'));
  }
  element.setAttribute('viewBox', `0 0 ${width} ${height}`);
  element.replaceChildren(...parts);
}
