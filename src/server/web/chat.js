// The conversation: what was said, and an answer as it streams in.
import {stream} from './api.js';
import {markdown, node} from './markdown.js';

const $ = (id) => document.getElementById(id);
const NUMBERS = ['temperature', 'top_p', 'top_k', 'min_p', 'repetition_penalty', 'max_tokens', 'seed'];
const SAVED = [...NUMBERS, 'system', 'tools'];

// An answer on the screen: thinking, text, calls, and a line of numbers under it.
class AnswerView {
  constructor() {
    this.thinkingText = node('div', []);
    this.summary = node('summary', ['Thinking']);
    this.thinking = node('details', [this.summary, this.thinkingText], {class: 'thinking'});
    this.thinking.hidden = true;
    this.body = node('div', [], {class: 'body busy'});
    this.tools = node('div', []);
    this.meta = node('div', [], {class: 'meta'});
    this.root = node('article', [this.thinking, this.body, this.tools, this.meta], {class: 'message assistant', 'aria-label': 'Answer'});
    this.frame = 0;
  }

  // Draws `message` soon: many pieces make one drawing.
  update(message) {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw(message);
    });
  }

  draw(message) {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.thinking.hidden = !message.reasoning_content;
    this.thinkingText.textContent = message.reasoning_content;
    this.body.replaceChildren(...markdown(message.content));
    this.tools.replaceChildren(...message.tool_calls.map((call) => node('div', [
      node('b', [call.function.name]), ' ', node('code', [call.function.arguments])], {class: 'tool'})));
  }
}

export class Chat {
  // `onAnswer` gets {prompt, answer}: the token ids of a finished answer.
  constructor(onAnswer) {
    this.model = '';
    this.messages = [];
    this.onAnswer = onAnswer;
    this.abort = null;
    for (const id of SAVED) {
      $(id).value = localStorage.getItem(`setting.${id}`) ?? '';
      $(id).addEventListener('change', () => localStorage.setItem(`setting.${id}`, $(id).value));
    }
    $('composer').addEventListener('submit', (event) => {
      event.preventDefault();
      this.send();
    });
    $('prompt').addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    $('stop').addEventListener('click', () => this.stop());
    this.reset();
  }

  reset() {
    this.stop();
    this.messages = [];
    $('messages').replaceChildren(node('p', ['Ask the model something.'], {class: 'empty'}));
    $('status').textContent = '';
    $('prompt').focus();
  }

  stop() {
    if (this.abort) this.abort.abort();
  }

  send() {
    const text = $('prompt').value;
    if (this.abort || !text.trim()) return;
    $('prompt').value = '';
    this.add({role: 'user', content: text}, node('div', [text], {class: 'message user', 'aria-label': 'You'}));
    this.answer();
  }

  // Asks again for the last answer.
  regenerate() {
    if (this.abort) return;
    while (this.messages.length && this.messages[this.messages.length - 1].role !== 'user' &&
           this.messages[this.messages.length - 1].role !== 'tool') {
      this.messages.pop();
      $('messages').lastElementChild.remove();
    }
    if (this.messages.length) this.answer();
  }

  add(message, element) {
    if (!this.messages.length) $('messages').replaceChildren();
    this.messages.push(message);
    $('messages').append(element);
    element.scrollIntoView({block: 'end'});
  }

  // The body of the request, from the conversation and the settings.
  request() {
    const system = $('system').value.trim();
    const body = {
      model: this.model,
      messages: [...(system ? [{role: 'system', content: system}] : []), ...this.messages],
      stream: true,
      stream_options: {include_usage: true},
      return_token_ids: true,
      chat_template_kwargs: {enable_thinking: $('thinking').checked},
    };
    for (const name of NUMBERS) {
      if ($(name).value !== '') body[name] = Number($(name).value);
    }
    if ($('tools').value.trim()) body.tools = JSON.parse($('tools').value);
    return body;
  }

  async answer() {
    let body;
    $('tools-error').textContent = '';
    try {
      body = this.request();
    } catch (error) {
      $('tools-error').textContent = `Tools are not JSON: ${error.message}`;
      $('status').textContent = 'The tools in the settings are not JSON.';
      return;
    }
    const view = new AnswerView();
    const message = {role: 'assistant', content: '', reasoning_content: '', tool_calls: []};
    const log = $('messages');
    this.add(message, view.root);
    this.abort = new AbortController();
    this.showBusy(true);
    const run = {start: performance.now(), first: 0, prompt: [], answer: [], usage: null, reason: '', error: ''};
    try {
      for await (const chunk of stream('v1/chat/completions', body, this.abort.signal)) {
        const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
        this.take(chunk, message, view, run);
        view.update(message);
        if (atEnd) requestAnimationFrame(() => { log.scrollTop = log.scrollHeight; });
      }
    } catch (error) {
      if (error.name === 'AbortError') {
        run.reason = 'stopped';
      } else {
        run.error = error.message;
      }
    }
    this.abort = null;
    this.showBusy(false);
    this.finish(message, view, run);
  }

  take(chunk, message, view, run) {
    if (chunk.usage) run.usage = chunk.usage;
    if (chunk.prompt_token_ids) run.prompt = chunk.prompt_token_ids;
    const choice = chunk.choices[0];
    if (!choice) return;
    if (!run.first) run.first = performance.now();
    if (choice.token_ids) run.answer.push(...choice.token_ids);
    if (choice.finish_reason) run.reason = choice.finish_reason;
    const delta = choice.delta;
    if (delta.reasoning_content) {
      message.reasoning_content += delta.reasoning_content;
      view.thinking.open = !message.content;
    }
    if (delta.content) {
      if (!message.content && message.reasoning_content) {
        view.thinking.open = false;
        view.summary.textContent = `Thought for ${((performance.now() - run.start) / 1000).toFixed(1)} s`;
      }
      message.content += delta.content;
    }
    for (const part of delta.tool_calls ?? []) {
      const call = message.tool_calls[part.index] ??= {id: part.id, type: 'function', function: {name: '', arguments: ''}};
      if (part.function?.name) call.function.name = part.function.name;
      call.function.arguments += part.function?.arguments ?? '';
    }
    $('status').textContent = `${run.answer.length || ''} tokens ...`.trim();
  }

  finish(message, view, run) {
    view.body.classList.remove('busy');
    if (view.summary.textContent === 'Thinking') view.summary.textContent = 'Thought';
    view.draw(message);
    $('status').textContent = '';
    const notes = [];
    if (run.usage) {
      const seconds = (performance.now() - run.first) / 1000;
      const tokens = run.usage.completion_tokens;
      const cached = run.usage.prompt_tokens_details?.cached_tokens ?? 0;
      notes.push(`${run.usage.prompt_tokens} prompt tokens${cached ? ` (${cached} cached)` : ''}`, `${tokens} answer tokens`);
      if (tokens > 1 && seconds > 0) notes.push(`${((tokens - 1) / seconds).toFixed(1)} tokens/s`);
    }
    if (run.first) notes.push(`first after ${((run.first - run.start) / 1000).toFixed(2)} s`);
    if (run.reason && run.reason !== 'stop') notes.push({length: 'cut off: no tokens left', stopped: 'stopped', tool_calls: 'wants a tool'}[run.reason] ?? run.reason);
    view.meta.replaceChildren(...notes.map((note) => node('span', [note])));
    if (run.error) view.meta.append(node('span', [run.error], {class: 'error', role: 'alert'}));
    const again = node('button', ['Regenerate'], {type: 'button', title: 'Alt+R'});
    again.addEventListener('click', () => this.regenerate());
    const copy = node('button', ['Copy'], {type: 'button'});
    copy.addEventListener('click', () => navigator.clipboard?.writeText(message.content));
    view.meta.append(again, copy);
    if (run.prompt.length && run.answer.length) {
      view.meta.append(node('a', ['What did it read?'], {href: '#tokens'}));
      this.onAnswer({prompt: run.prompt, answer: run.answer});
    }
    if (!message.reasoning_content) delete message.reasoning_content;
    if (!message.tool_calls.length) {
      delete message.tool_calls;
    } else if (run.reason === 'tool_calls') {
      this.askForResults(message, view);
    }
    view.root.scrollIntoView({block: 'end'});
  }

  // The person plays the tools.
  askForResults(message, view) {
    const fields = message.tool_calls.map((call) => node('textarea', [], {rows: '2', 'aria-label': `Result of ${call.function.name}`, placeholder: `Result of ${call.function.name}`}));
    const send = node('button', ['Send results'], {type: 'button'});
    [...view.tools.children].forEach((card, i) => card.append(fields[i]));
    view.tools.append(send);
    send.addEventListener('click', () => {
      if (this.abort) return;
      send.remove();
      message.tool_calls.forEach((call, i) => {
        fields[i].readOnly = true;
        this.add({role: 'tool', tool_call_id: call.id, content: fields[i].value},
                 node('div', [`${call.function.name}: ${fields[i].value}`], {class: 'message user'}));
      });
      this.answer();
    });
    fields[0]?.focus();
  }

  showBusy(busy) {
    $('send').hidden = busy;
    $('stop').hidden = !busy;
    if (!busy) $('prompt').focus();
  }
}
