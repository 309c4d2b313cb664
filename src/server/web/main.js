// The page: three views over one server. Which is shown is in the address, so that it can be linked and reloaded.
import {apiKey, getJson} from './api.js';
import {Chat} from './chat.js';
import {EngineView} from './engine.js';
import {TokenView} from './tokens.js';

const $ = (id) => document.getElementById(id);
const VIEWS = ['chat', 'tokens', 'engine'];

const tokens = new TokenView();
const chat = new Chat((answer) => tokens.take(answer), () => showPanel(true));
const engine = new EngineView();

function showView() {
  const wanted = location.hash.slice(1);
  const view = VIEWS.includes(wanted) ? wanted : 'chat';
  for (const each of VIEWS) {
    $(`view-${each}`).hidden = each !== view;
    if (each === view) {
      $(`tab-${each}`).setAttribute('aria-current', 'page');
    } else {
      $(`tab-${each}`).removeAttribute('aria-current');
    }
  }
  engine.run(view === 'engine');
  if (view === 'tokens') tokens.open();
  if (view === 'chat') chat.focus();
}

function showPanel(shown) {
  $('panel').hidden = !shown;
  $('panel-toggle').setAttribute('aria-expanded', String(shown));
  if (shown) {
    $('panel-close').focus();
  } else {
    chat.focus();
  }
}

const togglePanel = () => showPanel($('panel').hidden);

function newChat() {
  location.hash = 'chat';
  chat.reset();
}

function applyTheme() {
  const theme = localStorage.getItem('theme');
  if (theme) document.documentElement.dataset.theme = theme;
}

function switchTheme() {
  const now = document.documentElement.dataset.theme ||
      (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  localStorage.setItem('theme', now === 'dark' ? 'light' : 'dark');
  applyTheme();
}

async function showModel() {
  try {
    const models = await getJson('v1/models');
    $('model').textContent = models.data[0].id;
    chat.named(models.data[0].id);
    document.title = `${chat.model} - glint`;
    $('status').textContent = '';
  } catch (error) {
    $('status').textContent = error.message;
    setTimeout(showModel, 2000);
  }
}

applyTheme();
$('theme').addEventListener('click', switchTheme);
$('panel-toggle').addEventListener('click', togglePanel);
$('panel-close').addEventListener('click', togglePanel);
$('new-chat').addEventListener('click', newChat);
$('api_key').value = apiKey();
$('api_key').addEventListener('change', () => {
  sessionStorage.setItem('api_key', $('api_key').value);
  showModel();
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') {
    if (chat.running()) {
      chat.stop();
    } else if (!$('panel').hidden) {
      showPanel(false);
    }
  }
  if (!event.altKey || event.ctrlKey || event.metaKey) return;
  const actions = {KeyN: newChat, KeyS: togglePanel, KeyR: () => chat.regenerate()};
  if (!actions[event.code]) return;
  event.preventDefault();
  actions[event.code]();
});
window.addEventListener('hashchange', showView);
showModel();
showView();
