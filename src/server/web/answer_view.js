// An answer on the screen: its thought in one line that opens, text, calls of tools, and a line of numbers and actions.
// That line and the thought's have their room from the start, so that nothing moves when they are filled.
import {markdown, node} from './markdown.js';

const SVG = 'http://www.w3.org/2000/svg';

export function icon(name) {
  const out = document.createElementNS(SVG, 'svg');
  const use = document.createElementNS(SVG, 'use');
  use.setAttribute('href', `#i-${name}`);
  out.append(use);
  return out;
}

// A button, or a link if `href` is given, that is an icon with a name.
export function action(name, label, attributes, onClick) {
  const out = node(attributes.href ? 'a' : 'button', [icon(name)], {class: 'icon', title: label, 'aria-label': label, ...attributes});
  if (!attributes.href) out.type = 'button';
  if (onClick) out.addEventListener('click', onClick);
  return out;
}

// Where text that follows `root`'s last word would stand.
function end(root) {
  const into = new Set(['P', 'UL', 'OL', 'LI', 'BLOCKQUOTE', 'PRE', 'H3', 'H4', 'H5', 'H6']);
  let at = root;
  while (at.lastElementChild && into.has(at.lastElementChild.tagName)) at = at.lastElementChild;
  return at.tagName === 'PRE' ? at.firstElementChild : at;
}

export class AnswerView {
  // `thinks`: a thought is expected first, and stands there before it begins.
  constructor(thinks) {
    this.tail = node('span', [], {class: 'tail'});
    this.label = node('span', ['Thinking']);
    this.thought = node('div', [], {class: 'thought'});
    this.thinking = node('details', [node('summary', [this.label, this.tail]), this.thought], {class: 'thinking'});
    this.body = node('div', [], {class: 'body'});
    this.tools = node('div', []);
    this.numbers = node('span', [], {class: 'numbers'});
    this.actions = node('span', [], {class: 'actions'});
    this.meta = node('div', [this.numbers, this.actions], {class: 'meta'});
    this.root = node('article', [this.thinking, this.body, this.tools, this.meta], {class: 'message assistant', 'aria-label': 'Answer'});
    this.caret = node('span', [], {class: 'caret', 'aria-hidden': 'true'});
    this.thinks = thinks;
    this.running = true;
    this.frame = 0;
    this.draw({content: ''});
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
    const thought = message.reasoning_content ?? '';
    const thinks = this.running && !message.content && !message.tool_calls?.length && (this.thinks || Boolean(thought));
    this.thinking.hidden = !thought && !thinks;
    this.body.hidden = !this.thinking.hidden && !message.content;  // the thought's row takes the place of an empty text
    this.thought.textContent = thought;
    this.tail.replaceChildren(thinks ? thought.slice(-160).replace(/\s+/g, ' ') : '');
    this.body.replaceChildren(...markdown(message.content));
    this.tools.replaceChildren(...(message.tool_calls ?? []).map((call) => node('div', [
      node('b', [call.function.name]), ' ', node('code', [call.function.arguments])], {class: 'tool'})));
    if (!this.running) return;
    if (!this.body.hidden) {
      end(this.body).append(this.caret);
    } else if (this.thinking.open) {
      this.thought.append(this.caret);
    } else {
      this.tail.append(this.caret);
    }
  }

  thoughtFor(milliseconds) {
    this.label.textContent = `Thought for ${(milliseconds / 1000).toFixed(1)} s`;
  }

  // The last drawing. `notes` are [text, whether a phone shows it].
  finish(message, notes, actions, error) {
    this.running = false;
    this.caret.remove();
    this.draw(message);
    this.numbers.replaceChildren(...notes.map(([text, always], i) =>
        node('span', [`${i ? ' \u00b7 ' : ''}${text}`], always ? {} : {class: 'more'})));
    this.numbers.title = notes.map(([text]) => text).join(', ');
    if (error) this.meta.before(node('p', [error], {class: 'error', role: 'alert'}));
    this.actions.replaceChildren(...actions);
  }
}
