// Markdown to DOM nodes: what language models write, and nothing that could run. Text never becomes HTML: every
// node is made here, links go to http, https and mailto only, images are shown as links.

const INLINE = [
  [/^`` ?([\s\S]+?) ?``(?!`)|^`([^`\n]+)`/, (m) => node('code', [m[1] ?? m[2]])],
  [/^\*\*\*(?=\S)([\s\S]*?\S)\*\*\*(?!\*)/, (m) => node('strong', [node('em', inline(m[1]))])],
  [/^\*\*(?=\S)([\s\S]*?\S)\*\*|^__(?=\S)([\s\S]*?\S)__(?!\w)/, (m) => node('strong', inline(m[1] ?? m[2]))],
  [/^\*(?=[^\s*])([\s\S]*?[^\s*])\*(?!\*)|^_(?=[^\s_])([^_]*[^\s_])_(?!\w)/, (m) => node('em', inline(m[1] ?? m[2]))],
  [/^~~(?=\S)([\s\S]*?\S)~~/, (m) => node('del', inline(m[1]))],
  [/^!?\[([^\]\n]*)\]\(<?((?:[^\s()<>]|\([^\s()<>]*\))+)>?(?:\s+"[^"]*")?\)/, (m) => link(m[2], inline(m[1] || m[2]))],
  [/^<((?:https?:\/\/|mailto:)[^\s<>]+)>/, (m) => link(m[1], [m[1]])],
  [/^https?:\/\/[^\s<>()]*[^\s<>().,;:!?'"]/, (m) => link(m[0], [m[0]])],
];

// Quotes and lists in each other; what is deeper is text. Elements without end, from an answer that repeats itself, crash a tab.
const MAX_DEPTH = 32;

// '1 token', '2 tokens'.
export const counted = (n, thing) => `${n} ${thing}${n === 1 ? '' : 's'}`;

export function node(name, children, attributes = {}) {
  const out = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) out.setAttribute(key, value);
  out.append(...children);
  return out;
}

function link(target, children) {
  if (!/^(https?:|mailto:)/i.test(target)) return node('span', children);
  return node('a', children, {href: target, rel: 'noopener noreferrer', target: '_blank'});
}

// The nodes of one paragraph's text.
export function inline(text) {
  const out = [];
  let plain = '';
  const flush = () => {
    if (plain) out.push(plain);
    plain = '';
  };
  for (let at = 0; at < text.length;) {
    const rest = text.slice(at, at + 4000);
    if (rest[0] === '\\' && /[!-/:-@[-`{-~]/.test(rest[1] ?? '')) {
      plain += rest[1];
      at += 2;
      continue;
    }
    if (rest[0] === '\n') {
      flush();
      out.push(/ {2}$/.test(text.slice(Math.max(0, at - 2), at)) ? node('br', []) : '\n');
      at += 1;
      continue;
    }
    let match = null;
    // A word character before _ or a link means that neither begins here.
    const inWord = at > 0 && /\w/.test(text[at - 1]) && (rest[0] === '_' || rest[0] === 'h');
    if (!inWord && /[`*_~!\[<h]/.test(rest[0])) {
      for (const [pattern, make] of INLINE) {
        match = pattern.exec(rest);
        if (!match) continue;
        flush();
        out.push(make(match));
        break;
      }
    }
    if (match) {
      at += match[0].length;
    } else {
      plain += rest[0];
      at += 1;
    }
  }
  flush();
  return out;
}

// Browsers give pages from other machines no clipboard without TLS; a selection can be copied all the same.
export function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = node('textarea', [text], {readonly: ''});
  const focused = document.activeElement;
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
  focused?.focus();
}

function codeBlock(lines, language) {
  const copy = node('button', ['copy'], {type: 'button', 'aria-label': 'Copy the code'});
  copy.addEventListener('click', () => copyText(lines.join('\n')));
  return node('pre', [node('code', [lines.join('\n')], language ? {'data-language': language} : {}), copy]);
}

const cells = (line) => line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).map((c) => c.trim().replace(/\\\|/g, '|'));
const isRule = (line) => /^ {0,3}([-*_])( *\1){2,} *$/.test(line);
// A line that opens a block of code, or null; `end` matches the line that closes it.
function fenceOf(line) {
  const match = /^( *)(`{3,}|~{3,})\s*([^\s`]*)/.exec(line);
  if (!match) return null;
  const [, indent, marks, language] = match;
  return {indent: indent.length, language, end: new RegExp(`^ *${marks[0]}{${marks.length},}\\s*$`)};
}
// Without the marks that may close a heading.
function headingText(text) {
  const line = text.trimEnd();
  let end = line.length;
  while (end > 0 && line[end - 1] === '#') end -= 1;
  return end === 0 || line[end - 1] === ' ' ? line.slice(0, end).trimEnd() : line;
}
const listItem = (line) => /^( *)([-*+]|\d{1,9}[.)]) +(.*)$/.exec(line);

// A list that begins at `lines[at]`; returns [node, next line].
function list(lines, at, depth) {
  const first = listItem(lines[at]);
  const indent = first[1].length;
  const ordered = /\d/.test(first[2]);
  const out = node(ordered ? 'ol' : 'ul', [], ordered && first[2] !== '1.' ? {start: parseInt(first[2], 10)} : {});
  while (at < lines.length) {
    const item = listItem(lines[at]);
    if (!item || item[1].length !== indent || /\d/.test(item[2]) !== ordered) break;
    const inner = [item[3]];
    const width = item[0].length - item[3].length;
    let fence = fenceOf(item[3]);
    let strip = width;
    for (at += 1; at < lines.length; ++at) {
      const line = lines[at];
      const own = /^ */.exec(line)[0].length;
      if (!fence) {
        const next = listItem(line);
        if (next && next[1].length <= indent) break;
        if (line.trim() !== '' && own <= indent && lines[at - 1].trim() === '') break;
        fence = fenceOf(line);
        strip = fence ? Math.min(width, fence.indent) : width;
      } else if (fence.end.test(line)) {
        fence = null;
      }
      inner.push(line.slice(Math.min(strip, own)));
    }
    while (inner.length && inner[inner.length - 1].trim() === '') inner.pop();
    const children = blocks(inner, depth + 1);
    // A tight item is a line, not a paragraph.
    const flat = children.length && children[0].tagName === 'P' ? [...children[0].childNodes, ...children.slice(1)] : children;
    out.append(node('li', flat));
  }
  return [out, at];
}

function table(lines, at) {
  const head = node('tr', cells(lines[at]).map((c) => node('th', inline(c), {scope: 'col'})));
  const rows = [];
  for (at += 2; at < lines.length && lines[at].includes('|'); ++at) {
    rows.push(node('tr', cells(lines[at]).map((c) => node('td', inline(c)))));
  }
  return [node('div', [node('table', [node('thead', [head]), node('tbody', rows)])], {class: 'table'}), at];
}

function blocks(lines, depth = 0) {
  if (depth > MAX_DEPTH) return [node('p', inline(lines.join('\n')))];
  const out = [];
  let paragraph = [];
  const flush = () => {
    if (paragraph.length) out.push(node('p', inline(paragraph.join('\n'))));
    paragraph = [];
  };
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    const fence = fenceOf(line);
    const heading = /^ {0,3}(#{1,6})\s+(.*)$/.exec(line);
    if (fence && fence.indent <= 3) {
      flush();
      const code = [];
      for (at += 1; at < lines.length && !fence.end.test(lines[at]); ++at) code.push(lines[at]);
      at += 1;
      out.push(codeBlock(code, fence.language));
    } else if (heading) {
      flush();
      out.push(node(`h${Math.min(6, heading[1].length + 2)}`, inline(headingText(heading[2]))));
      at += 1;
    } else if (isRule(line)) {
      flush();
      out.push(node('hr', []));
      at += 1;
    } else if (/^ {0,3}>/.test(line)) {
      flush();
      const quoted = [];
      for (; at < lines.length && /^ {0,3}>/.test(lines[at]); ++at) quoted.push(lines[at].replace(/^ {0,3}> ?/, ''));
      out.push(node('blockquote', blocks(quoted, depth + 1)));
    } else if (listItem(line) && !paragraph.length) {
      const [made, next] = list(lines, at, depth);
      out.push(made);
      at = next;
    } else if (line.includes('|') && /^[\s|:-]*-[\s|:-]*$/.test(lines[at + 1] ?? '') && (lines[at + 1] ?? '').includes('|')) {
      flush();
      const [made, next] = table(lines, at);
      out.push(made);
      at = next;
    } else if (line.trim() === '') {
      flush();
      at += 1;
    } else if (listItem(line)) {  // a list right after a line of text
      flush();
    } else {
      paragraph.push(line);
      at += 1;
    }
  }
  flush();
  return out;
}

// The DOM nodes of a whole text, which may still be growing: an open fence is code to its end.
export function markdown(text) {
  return blocks(text.split(/\r?\n/));
}
