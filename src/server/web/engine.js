// The engine at work: numbers, charts of the last five minutes, the load of the experts.
import {getJson} from './api.js';
import {node} from './markdown.js';

const $ = (id) => document.getElementById(id);
const SECONDS = 300;
const SVG = 'http://www.w3.org/2000/svg';

function svg(name, attributes, text) {
  const out = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) out.setAttribute(key, value);
  if (text !== undefined) out.textContent = text;
  return out;
}

// A tidy number at or above `value`: 1, 2, 5 times a power of ten.
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= value);
}

// Lines over the `span` {now, seconds}. `series` are lists of [seconds, value].
function drawChart(element, series, span, fixedTop) {
  const values = series.flatMap((points) => points.map((point) => point[1]));
  const top = fixedTop ?? ceiling(Math.max(...values, 1));
  element.setAttribute('viewBox', '0 0 300 100');
  element.setAttribute('preserveAspectRatio', 'none');
  const parts = [0.25, 0.5, 0.75].map((y) => svg('line', {class: 'grid', x1: 0, x2: 300, y1: 100 * y, y2: 100 * y}));
  series.forEach((points, i) => {
    const path = points.map(([t, value]) => `${(300 - (span.now - t) * 300 / span.seconds).toFixed(1)},${(98 - 94 * value / top).toFixed(1)}`);
    parts.push(svg('polyline', {class: `line l${i}`, points: path.join(' ')}));
  });
  element.replaceChildren(...parts);
  element.nextElementSibling?.remove();
  element.after(node('p', [`top ${top.toLocaleString('en')}, ${Math.round(span.seconds)} s`], {class: 'hint'}));
}

// Rows are layers, columns experts; the colour is the share of the layer's tokens against an even spread.
function drawExperts(canvas, load, layers) {
  const rows = load.length;
  const columns = rows ? load[0].length : 0;
  canvas.width = Math.max(columns, 1);
  canvas.height = Math.max(rows, 1);
  canvas.style.height = `${Math.min(480, Math.max(60, rows * 8))}px`;
  const context = canvas.getContext('2d');
  const image = context.createImageData(canvas.width, canvas.height);
  let hottest = {ratio: 0};
  load.forEach((counts, row) => {
    const total = counts.reduce((sum, count) => sum + count, 0);
    counts.forEach((count, column) => {
      const ratio = total ? count * columns / total : 0;
      if (ratio > hottest.ratio) hottest = {ratio, layer: layers[row], expert: column};
      const heat = Math.min(1, ratio / 4);
      const at = 4 * (row * canvas.width + column);
      image.data.set([40 + 215 * heat, 30 + 150 * heat * heat, 60 * (1 - heat) + 20, 255], at);
    });
  });
  context.putImageData(image, 0, 0);
  return hottest;
}

export class EngineView {
  constructor() {
    this.timer = 0;
    this.history = [];  // states, oldest first
    this.load = [];
    $('experts').addEventListener('mousemove', (event) => this.point(event));
  }

  // Polls while `active`.
  run(active) {
    clearInterval(this.timer);
    this.timer = 0;
    if (!active) return;
    this.poll();
    this.timer = setInterval(() => this.poll(), 1000);
  }

  async poll() {
    let state;
    try {
      state = await getJson('engine');
    } catch (error) {
      $('expert-note').textContent = error.message;
      return;
    }
    state.at = performance.now() / 1000;
    this.history.push(state);
    this.history = this.history.filter((each) => state.at - each.at <= SECONDS);
    this.draw(state);
  }

  // The increase of a counter between neighbouring states, as [seconds, value] by `make`.
  rates(make) {
    return this.history.slice(1).map((state, i) => [state.at, make(state, this.history[i])]);
  }

  draw(state) {
    const span = {now: state.at, seconds: Math.min(SECONDS, Math.max(30, state.at - this.history[0].at))};
    const gauge = (make) => this.history.map((each) => [each.at, make(each)]);
    const rate = (name) => this.rates((b, a) => Math.max(0, b[name] - a[name]) / (b.at - a.at));
    drawChart($('chart-requests'), [gauge((s) => s.running), gauge((s) => s.waiting)], span);
    drawChart($('chart-kv'), [gauge((s) => s.total_pages ? 100 * s.used_pages / s.total_pages : 0)], span, 100);
    drawChart($('chart-tokens'), [rate('generated_tokens'), rate('prompt_tokens')], span);
    drawChart($('chart-drafts'), [this.rates((b, a) => {
      const drafted = b.drafted_tokens - a.drafted_tokens;
      return drafted > 0 ? 100 * (b.accepted_tokens - a.accepted_tokens) / drafted : 0;
    })], span, 100);
    const last = (list) => list.length ? list[list.length - 1][1] : 0;
    const hits = state.prefix_queries ? 100 * state.prefix_hits / state.prefix_queries : 0;
    const numbers = [
      ['running', state.running], ['waiting', state.waiting],
      ['answer tokens/s', last(rate('generated_tokens')).toFixed(1)], ['prompt tokens/s', last(rate('prompt_tokens')).toFixed(1)],
      ['KV pages', `${state.used_pages} / ${state.total_pages}`], ['prefix cache hits', `${hits.toFixed(0)} %`],
      ['steps', state.steps.toLocaleString('en')], ['preemptions', state.preemptions],
      ['host per step', `${state.steps ? (1e6 * state.overhead_seconds / state.steps).toFixed(0) : 0} us`],
      ['state', state.paused ? 'paused' : 'serving'],
    ];
    $('numbers').replaceChildren(...numbers.map(([name, value]) => node('div', [node('dt', [name]), node('dd', [String(value)])])));
    this.load = state.expert_load.tokens;
    this.layers = state.expert_load.layers;
    const hottest = drawExperts($('experts'), this.load, this.layers);
    if (!this.pointed) {
      $('expert-note').textContent = hottest.ratio ?
          `Busiest: expert ${hottest.expert} of layer ${hottest.layer}, ${hottest.ratio.toFixed(1)} times an even share.` : 'No tokens yet.';
    }
  }

  point(event) {
    const box = $('experts').getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / box.height * this.load.length);
    const column = Math.floor((event.clientX - box.left) / box.width * (this.load[0]?.length ?? 0));
    const count = this.load[row]?.[column];
    this.pointed = count !== undefined;
    if (this.pointed) $('expert-note').textContent = `Layer ${this.layers[row]}, expert ${column}: ${count.toLocaleString('en')} tokens.`;
  }
}
