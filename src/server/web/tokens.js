// The tokens of the last answer and its prompt; for a chosen token, the positions that each layer's sparse attention
// read to produce it.
import {postJson} from './api.js';
import {node} from './markdown.js';

const $ = (id) => document.getElementById(id);

export class TokenView {
  constructor() {
    this.ids = [];  // that are drawn
    this.spans = [];
    this.numPrompt = 0;
    this.next = null;  // to be drawn
    this.asked = 0;  // how often keys were asked for: only the last answer counts
    $('tokens-note').textContent = 'There is no answer yet: ask something in the chat.';
    $('token-list').addEventListener('click', (event) => this.choose(this.spans.indexOf(event.target)));
    $('token-list').addEventListener('keydown', (event) => this.key(event));
  }

  // `prompt` and `answer` are token ids; they are drawn when the view opens, or now if it is open.
  take({prompt, answer}) {
    this.next = {ids: [...prompt, ...answer], numPrompt: prompt.length};
    return $('view-tokens').hidden ? undefined : this.open();
  }

  async open() {
    const next = this.next;
    if (!next) return;
    const {ids} = next;
    $('tokens-note').textContent = '';
    let texts;
    try {
      texts = (await postJson('detokenize', {tokens: ids, return_token_strs: true})).token_strs;
    } catch (error) {
      $('tokens-note').textContent = error.message;
      return;
    }
    if (next !== this.next) return;
    Object.assign(this, next, {next: null});
    // Spans, not buttons: a button is a box of its own, which a line break inside would lift out of the line.
    this.spans = ids.map((id, at) => {
      const text = texts[at] === '' ? '\u00b7' : texts[at];
      const out = node('span', [text], {title: `position ${at}, token ${id}`});
      if (text.startsWith('\n')) out.className = 'newline';
      if (at >= this.numPrompt) {
        out.setAttribute('role', 'button');
        out.tabIndex = -1;
      }
      return out;
    });
    // One by one: a call takes some 100,000 arguments, and a context has more tokens.
    const list = document.createDocumentFragment();
    for (const span of this.spans) list.append(span);
    $('token-list').replaceChildren(list);
    const last = texts.findLastIndex((text, at) => at >= this.numPrompt && /\w/.test(text) && !text.startsWith('<'));
    await this.choose(Math.max(last, this.numPrompt));
  }

  // Arrows go from token to token, Enter chooses.
  key(event) {
    const at = this.spans.indexOf(document.activeElement);
    const to = at + {ArrowLeft: -1, ArrowRight: 1, Enter: 0, ' ': 0}[event.key];
    if (!(to >= this.numPrompt && to < this.spans.length)) return;
    event.preventDefault();
    this.spans[to].focus();
    if (to === at) this.choose(at);
  }

  // Token `at` was produced by the row before it: that row's attention is shown.
  async choose(at) {
    if (at < this.numPrompt || at >= this.spans.length) return;
    const asked = ++this.asked;
    const spans = this.spans;
    let read;
    try {
      read = await postJson('engine/selected_keys', {tokens: this.ids.slice(0, at)});
    } catch (error) {
      $('tokens-note').textContent = error.message;
      return;
    }
    if (asked !== this.asked || spans !== this.spans) return;
    for (const span of spans) {
      span.style.background = '';
      span.classList.remove('chosen');
      if (span.role) span.tabIndex = -1;
    }
    spans[at].classList.add('chosen');
    spans[at].tabIndex = 0;
    const most = read.keys.reduce((most, key) => Math.max(most, key.num_layers), 1);
    for (const {position, num_layers} of read.keys) {
      spans[position].style.background = `rgba(var(--mark), ${(0.12 + 0.68 * num_layers / most).toFixed(2)})`;
    }
    const all = read.keys.every((key) => key.num_layers === most) && read.keys.length === at;
    $('tokens-note').textContent = `Position ${at} was chosen after reading ${read.keys.length} of ${at} positions; ` +
        (all ? 'a text this short is read whole.' : `the strongest were read by ${most} layers.`);
  }
}
