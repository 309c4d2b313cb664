// The tokens of the last answer and its prompt; for a chosen token, the positions that each layer's sparse attention
// read to produce it.
import {postJson} from './api.js';
import {node} from './markdown.js';

const $ = (id) => document.getElementById(id);

export class TokenView {
  constructor() {
    this.ids = [];
    this.spans = [];
    $('tokens-note').textContent = 'There is no answer yet: ask something in the chat.';
  }

  // `prompt` and `answer` are token ids.
  async show({prompt, answer}) {
    this.ids = [...prompt, ...answer];
    $('tokens-note').textContent = '';
    let texts;
    try {
      texts = (await postJson('detokenize', {tokens: this.ids, return_token_strs: true})).token_strs;
    } catch (error) {
      $('tokens-note').textContent = error.message;
      return;
    }
    this.spans = this.ids.map((id, at) => {
      const text = texts[at] === '' ? '\u00b7' : texts[at];
      if (at < prompt.length) return node('span', [text], {title: `position ${at}, token ${id}`});
      const button = node('button', [text], {type: 'button', title: `position ${at}, token ${id}`});
      button.addEventListener('click', () => this.choose(at));
      return button;
    });
    $('token-list').replaceChildren(...this.spans);
    $('tokens-note').textContent = 'Choose an underlined token of the answer.';
  }

  // Token `at` was produced by the row before it: that row's attention is shown.
  async choose(at) {
    $('tokens-note').textContent = 'Asking the model ...';
    let read;
    try {
      read = await postJson('engine/selected_keys', {tokens: this.ids.slice(0, at)});
    } catch (error) {
      $('tokens-note').textContent = error.message;
      return;
    }
    for (const span of this.spans) {
      span.style.background = '';
      span.classList.remove('chosen');
    }
    this.spans[at].classList.add('chosen');
    const most = Math.max(...read.keys.map((key) => key.num_layers), 1);
    for (const {position, num_layers} of read.keys) {
      this.spans[position].style.background = `rgba(var(--mark), ${(0.12 + 0.68 * num_layers / most).toFixed(2)})`;
    }
    $('tokens-note').textContent = `Position ${at} was chosen after reading ${read.keys.length} of ${at} positions; the strongest were ` +
        `read by ${most} layers.`;
  }
}
