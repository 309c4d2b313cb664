// The conversation: what was said, and an answer as it streams in.
import {action, AnswerView, icon} from './answer_view.js';
import {stream} from './api.js';
import {copyText, counted, node} from './markdown.js';
import {SUGGESTIONS, WEATHER_TOOL} from './suggestions.js';

const $ = (id) => document.getElementById(id);
const NUMBERS = ['temperature', 'top_p', 'top_k', 'min_p', 'repetition_penalty', 'max_tokens', 'seed'];
const SAVED = [...NUMBERS, 'system', 'tools'];
const ENDS = {length: 'cut off: no tokens left', stopped: 'stopped', tool_calls: 'wants a tool'};

export class Chat {
  // `onAnswer` gets {prompt, answer}: the token ids of a finished answer. `showSettings` opens the settings.
  constructor(onAnswer, showSettings) {
    this.model = '';
    this.messages = [];
    this.onAnswer = onAnswer;
    this.abort = null;
    this.suggestion = null;
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
    $('tools').addEventListener('input', () => this.showTools());
    $('tools').addEventListener('change', () => this.showTools());
    $('tools-chip').addEventListener('click', showSettings);
    $('tools-example').addEventListener('click', () => {
      this.fillTools(JSON.stringify(WEATHER_TOOL, null, 2));
      $('tools').dispatchEvent(new Event('change'));
    });
    this.showTools();
    this.reset();
  }

  named(model) {
    this.model = model;
    const title = document.querySelector('.empty h2');
    if (title) title.textContent = `Ask ${model} something`;
  }

  running() {
    return this.abort !== null;
  }

  // Only where that opens no keyboard on the screen.
  focus() {
    if (matchMedia('(pointer: fine)').matches) $('prompt').focus();
  }

  reset() {
    this.stop();
    this.messages = [];
    if (this.suggestion?.tools) this.fillTools(localStorage.getItem('setting.tools') ?? '');
    this.suggestion = null;
    const offers = SUGGESTIONS.map((each) => {
      const button = node('button', [node('b', [each.title]), node('span', [each.hint])], {type: 'button'});
      button.addEventListener('click', () => this.suggest(each));
      return button;
    });
    $('messages').replaceChildren(node('div', [
      (() => { const star = icon('star'); star.setAttribute('class', 'mark'); return star; })(),
      node('h2', [this.model ? `Ask ${this.model} something` : '']), node('div', offers, {class: 'suggestions'})], {class: 'empty'}));
    $('status').textContent = '';
    this.focus();
  }

  suggest(suggestion) {
    if (this.abort) return;
    this.suggestion = suggestion;
    if (suggestion.tools) this.fillTools(JSON.stringify(suggestion.tools, null, 2));  // for this conversation: not saved
    this.ask(suggestion.text);
  }

  fillTools(text) {
    $('tools').value = text;
    this.showTools();
  }

  // Beside the prompt stands which tools the model has.
  showTools() {
    let names = '';
    try {
      names = JSON.parse($('tools').value || '[]').map((tool) => tool.function.name).join(', ');
      $('tools-error').textContent = '';
    } catch (error) {
      $('tools-error').textContent = `Not a list of tools: ${error.message}`;
    }
    $('tools-chip').hidden = !names;
    $('tools-chip').textContent = `Tools: ${names}`;
  }

  stop() {
    if (this.abort) this.abort.abort();
  }

  send() {
    const text = $('prompt').value;
    if (this.abort || !text.trim() || !this.checkedRequest()) return;
    $('prompt').value = '';
    this.ask(text);
  }

  ask(text) {
    this.add({role: 'user', content: text}, node('div', [text], {class: 'message user', 'aria-label': 'You'}));
    this.answer();
  }

  // Takes away what only the newest answer offers: another try, its tokens, to play its tools.
  retire() {
    for (const each of $('messages').querySelectorAll('.newest')) each.remove();
  }

  // Asks again for the last answer.
  regenerate() {
    if (this.abort) return;
    while (this.messages.length && this.messages[this.messages.length - 1].role === 'assistant') {
      this.messages.pop();
      $('messages').lastElementChild.remove();
    }
    if (this.messages.length) this.answer();
  }

  add(message, element) {
    if (!this.messages.length) $('messages').replaceChildren();
    this.messages.push(message);
    $('messages').append(element);
    this.toEnd();
  }

  toEnd() {
    $('messages').scrollTop = $('messages').scrollHeight;
  }

  // The body of the request, from the conversation and the settings.
  request() {
    const system = $('system').value.trim();
    // An answer that failed before it began says nothing.
    const said = this.messages.filter((m) => m.role !== 'assistant' || m.content || m.reasoning_content || m.tool_calls);
    const body = {
      model: this.model,
      messages: [...(system ? [{role: 'system', content: system}] : []), ...said],
      stream: true,
      stream_options: {include_usage: true},
      return_token_ids: true,
      return_timings: true,
      chat_template_kwargs: {enable_thinking: $('thinking').checked},
    };
    for (const name of NUMBERS) {
      if ($(name).value !== '') body[name] = Number($(name).value);
    }
    if ($('temperature').value === '' && this.suggestion) body.temperature = this.suggestion.temperature;
    if ($('tools').value.trim()) body.tools = JSON.parse($('tools').value);
    return body;
  }

  // Null where the settings allow none, which the status says.
  checkedRequest() {
    try {
      const body = this.request();
      $('status').textContent = '';
      return body;
    } catch {
      $('status').textContent = 'The tools in the settings are not JSON.';
      return null;
    }
  }

  async answer() {
    const body = this.checkedRequest();
    if (!body) return;
    this.retire();
    const view = new AnswerView($('thinking').checked);
    const message = {role: 'assistant', content: '', reasoning_content: '', tool_calls: []};
    const log = $('messages');
    const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 60;
    this.add(message, view.root);
    this.abort = new AbortController();
    this.showBusy(true);
    const run = {start: performance.now(), first: 0, thought: 0, prompt: [], answer: [], usage: null, timings: null, reason: '', error: ''};
    try {
      for await (const chunk of stream('v1/chat/completions', body, this.abort.signal)) {
        const follow = atEnd();
        this.take(chunk, message, view, run);
        view.update(message);
        if (follow) requestAnimationFrame(() => this.toEnd());
      }
    } catch (error) {
      if (error.name === 'AbortError') {
        run.reason = 'stopped';
      } else {
        run.error = error.message;
      }
    }
    const follow = atEnd();
    this.abort = null;
    this.showBusy(false);
    this.finish(message, view, run);
    if (follow) this.toEnd();
  }

  take(chunk, message, view, run) {
    if (chunk.usage) run.usage = chunk.usage;
    if (chunk.timings) run.timings = chunk.timings;
    if (chunk.prompt_token_ids) run.prompt = chunk.prompt_token_ids;
    const choice = chunk.choices[0];
    if (!choice) return;
    if (!run.first) run.first = performance.now();
    if (choice.token_ids) run.answer.push(...choice.token_ids);
    if (choice.finish_reason) run.reason = choice.finish_reason;
    const delta = choice.delta;
    if (delta.reasoning_content) {
      message.reasoning_content += delta.reasoning_content;
      run.thought = performance.now();
    }
    if (delta.content) {
      if (!message.content && run.thought) view.thoughtFor(run.thought - run.start);
      message.content += delta.content;
    }
    for (const part of delta.tool_calls ?? []) {
      const call = message.tool_calls[part.index] ??= {id: part.id, type: 'function', function: {name: '', arguments: ''}};
      if (part.function?.name) call.function.name = part.function.name;
      call.function.arguments += part.function?.arguments ?? '';
    }
    view.numbers.textContent = run.answer.length ? counted(run.answer.length, 'token') : '';
  }

  finish(message, view, run) {
    const notes = [];
    if (run.usage) {
      const tokens = run.usage.completion_tokens;
      const cached = run.usage.prompt_tokens_details?.cached_tokens ?? 0;
      notes.push([counted(tokens, 'answer token'), true]);
      if (run.timings) notes.push([`${run.timings.predicted_per_second.toFixed(0)} tokens/s`, true]);
      notes.push([`${counted(run.usage.prompt_tokens, 'prompt token')}${cached ? ` (${cached} cached)` : ''}`, false]);
    }
    if (run.first) notes.push([`first after ${((run.first - run.start) / 1000).toFixed(2)} s`, false]);
    if (run.reason && run.reason !== 'stop') notes.push([ENDS[run.reason] ?? run.reason, run.reason !== 'tool_calls']);
    const actions = [
      action('copy', 'Copy', {}, () => copyText(message.content)),
      action('again', 'Regenerate (Alt+R)', {class: 'icon newest'}, () => this.regenerate()),
    ];
    if (run.prompt.length && run.answer.length) {
      actions.unshift(action('read', 'What did it read?', {href: '#tokens', class: 'icon newest'}));
      this.onAnswer({prompt: run.prompt, answer: run.answer});
    }
    if (run.thought) view.thoughtFor(run.thought - run.start);
    if (!message.reasoning_content) delete message.reasoning_content;
    // Arguments that were cut off are no JSON, and the server would refuse them in every later request.
    if (run.error || run.reason === 'stopped') message.tool_calls = [];
    if (!message.tool_calls.length) delete message.tool_calls;
    view.finish(message, notes, actions, run.error);
    if (message.tool_calls && run.reason === 'tool_calls') this.askForResults(message, view);
  }

  // The person plays the tools; what was said stays in the tool's box.
  askForResults(message, view) {
    const fields = message.tool_calls.map((call) => node('textarea', [this.suggestion?.result ?? ''], {
      rows: '1', placeholder: 'What it would say', 'aria-label': `Result of ${call.function.name}`}));
    const send = node('button', ['Send the result'], {type: 'button', class: 'newest'});
    [...view.tools.children].forEach((card, i) => card.append(node('label', ['You are the tool. It says', fields[i]], {class: 'newest'})));
    view.tools.append(send);
    send.addEventListener('click', () => {
      if (this.abort) return;
      send.remove();
      message.tool_calls.forEach((call, i) => {
        fields[i].readOnly = true;
        fields[i].previousSibling.textContent = 'The tool said';
        fields[i].parentElement.removeAttribute('class');
        this.messages.push({role: 'tool', tool_call_id: call.id, content: fields[i].value});
      });
      this.answer();
    });
    if (matchMedia('(pointer: fine)').matches) fields[0]?.focus();
  }

  showBusy(busy) {
    $('send').hidden = busy;
    $('stop').hidden = !busy;
    if (!busy) this.focus();
  }
}
