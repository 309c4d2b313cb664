// The engine at work: numbers, charts of the last five minutes, the load of the experts.
import {getJson} from './api.js';
import {drawChart} from './chart.js';
import {node} from './markdown.js';

const $ = (id) => document.getElementById(id);
const SECONDS = 300;
const HOT = 4;  // times an even share: the end of the map's scale

const whole = (value) => Math.round(value).toLocaleString('en');
const last = (list) => (list.length ? list[list.length - 1][1] : 0);

// The numbers on top, in their order: [name, of a state and the rates of its last second].
const TILES = [
  ['state', (s) => (s.paused ? 'paused' : 'serving')],
  ['running', (s) => whole(s.running)],
  ['waiting', (s) => whole(s.waiting)],
  ['answer tokens/s', (s, rates) => whole(rates.generated)],
  ['prompt tokens/s', (s, rates) => whole(rates.prompt)],
  ['KV pages in use', (s) => `${whole(s.used_pages)} of ${whole(s.total_pages)}`],
  ['prefix cache hits', (s) => (s.prefix_queries ? `${whole(100 * s.prefix_hits / s.prefix_queries)} %` : '\u2013')],
  ['steps', (s) => whole(s.steps)],
  ['preemptions', (s) => whole(s.preemptions)],
  ['host per step', (s) => (s.steps ? `${whole(1e6 * s.overhead_seconds / s.steps)} \u00b5s` : '\u2013')],
];

// The colour of CSS variable `name`, which is #rrggbb, as three numbers.
function colour(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

// Rows are layers, columns experts; the colour is the share of the layer's tokens against an even spread.
function drawExperts(canvas, load, layers) {
  const rows = load.length;
  const columns = rows ? load[0].length : 0;
  canvas.width = Math.max(columns, 1);
  canvas.height = Math.max(rows, 1);
  canvas.style.height = `${Math.min(480, Math.max(128, rows * 6))}px`;
  const context = canvas.getContext('2d');
  const image = context.createImageData(canvas.width, canvas.height);
  const [cold, hot] = [colour('--mine'), colour('--series0')];
  let hottest = {ratio: 0};
  load.forEach((counts, row) => {
    const total = counts.reduce((sum, count) => sum + count, 0);
    counts.forEach((count, column) => {
      const ratio = total ? count * columns / total : 0;
      if (ratio > hottest.ratio) hottest = {ratio, layer: layers[row], expert: column};
      const heat = Math.min(1, ratio / HOT);
      image.data.set([...cold.map((value, i) => value + (hot[i] - value) * heat), 255], 4 * (row * canvas.width + column));
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
    this.tiles = TILES.map(([name]) => {
      const value = node('dd', ['\u2013']);
      $('numbers').append(node('div', [node('dt', [name]), value]));
      return value;
    });
    $('experts').addEventListener('pointermove', (event) => this.point(event));
    $('experts').addEventListener('pointerleave', () => { this.pointed = false; });
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

  // [seconds, make(state, previous state)] of every state but the first.
  rates(make) {
    return this.history.slice(1).map((state, i) => [state.at, make(state, this.history[i])]);
  }

  draw(state) {
    const span = {now: state.at, seconds: Math.min(SECONDS, Math.max(60, state.at - this.history[0].at))};
    const gauge = (make) => this.history.map((each) => [each.at, make(each)]);
    const rate = (name) => this.rates((b, a) => Math.max(0, b[name] - a[name]) / (b.at - a.at));
    const generated = rate('generated_tokens');
    const prompt = rate('prompt_tokens');
    drawChart($('chart-requests'), [gauge((s) => s.running), gauge((s) => s.waiting)], span);
    drawChart($('chart-tokens'), [generated, prompt], span);
    drawChart($('chart-kv'), [gauge((s) => (s.total_pages ? 100 * s.used_pages / s.total_pages : 0))], span, {top: 100, unit: ' %'});
    drawChart($('chart-drafts'), [this.rates((b, a) => {
      const drafted = b.drafted_tokens - a.drafted_tokens;
      return drafted > 0 ? 100 * (b.accepted_tokens - a.accepted_tokens) / drafted : null;  // a gap where nothing was drafted
    })], span, {top: 100, unit: ' %'});
    const now = {generated: last(generated), prompt: last(prompt)};
    TILES.forEach(([, make], i) => { this.tiles[i].textContent = make(state, now); });
    this.drawMap(state.expert_load);
  }

  drawMap({tokens, layers}) {
    this.load = tokens;
    this.layers = layers;
    const hottest = drawExperts($('experts'), tokens, layers);
    $('first-layer').textContent = layers.length ? `layer ${layers[0]}` : '';
    $('last-layer').textContent = layers.length > 1 ? `${layers[layers.length - 1]}` : '';
    $('first-expert').textContent = tokens.length ? 'expert 0' : '';
    $('last-expert').textContent = tokens.length ? `${tokens[0].length - 1}` : '';
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
    if (this.pointed) $('expert-note').textContent = `Layer ${this.layers[row]}, expert ${column}: ${count.toLocaleString('en')} ${count === 1 ? 'token' : 'tokens'}.`;
  }
}
