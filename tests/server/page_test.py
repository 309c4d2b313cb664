"""The page in a real browser, from the real program: suggestions, chat, stop, regenerate, attention, engine, keyboard, phone,
dark, and that nothing moves while an answer comes.

    page_test.py GLINT MODEL_DIR [SCREENSHOT_DIR]
"""
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))
import oracle_venv  # noqa: E402

oracle_venv.enter("selenium==4.51.0")

from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

from served import Served  # noqa: E402

# Watches a page from its first moment: what moved without a hand on it, and how many carets an answer had at once.
WATCH = """
  window.moved = [];
  window.mostCarets = 0;
  new PerformanceObserver((list) => {
    for (const shift of list.getEntries()) {
      for (const {node} of shift.hadRecentInput ? [] : shift.sources) {
        const element = node && (node.nodeType === 1 ? node : node.parentElement);
        if (element) window.moved.push(element.id || element.className || element.tagName);
      }
    }
  }).observe({type: 'layout-shift', buffered: true});
  new MutationObserver(() => {
    window.mostCarets = Math.max(window.mostCarets, document.querySelectorAll('.caret').length);
  }).observe(document, {childList: true, subtree: true});
"""


class Page:
    def __init__(self, url, width, height, screenshots):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                         f"--window-size={width},{height}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
        self.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        self.screenshots = screenshots
        self.browser.get(url + "/")
        self.wait(lambda: self.id("model").get_attribute("textContent") == "glm5-tiny")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.browser.quit()

    def wait(self, condition, seconds=60):
        WebDriverWait(self.browser, seconds).until(lambda _: condition())

    def id(self, name):
        return self.browser.find_element(By.ID, name)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def text(self, name):
        return self.id(name).text

    def script(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def click(self, name):
        """Not by the mouse: what moves within half a second of a click does not count as moved by itself."""
        self.script("document.getElementById(arguments[0]).click()", name)

    def set(self, name, value):
        """As a person who edits a field of the settings."""
        self.script("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))", self.id(name), value)

    def ask(self, text):
        answers = len(self.all(".message.assistant"))
        self.id("prompt").send_keys(text, Keys.ENTER)
        self.wait(lambda: len(self.all(".message.assistant")) == answers + 1)

    def finished(self):
        self.wait(lambda: self.id("send").is_displayed() and self.all(".message.assistant:last-child .actions .icon"))

    def answer(self):
        return self.all(".message.assistant")[-1]

    def meta(self):
        return self.answer().find_element(By.CSS_SELECTOR, ".meta").text

    def shot(self, name):
        if self.screenshots:
            self.browser.save_screenshot(str(pathlib.Path(self.screenshots) / f"{name}.png"))

    def no_complaints(self):
        bad = [entry for entry in self.browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        assert not bad, bad


def suggest(page, title):
    page.click("new-chat")
    page.script("[...document.querySelectorAll('.suggestions button')].find(each => each.textContent.includes(arguments[0])).click()", title)
    page.wait(lambda: page.all(".message.assistant"))
    page.finished()
    return page.answer().text


def suggestions(page):
    """The empty page offers only things that the bundled model can do; a tool comes with its JSON."""
    page.set("temperature", "0")
    page.shot("empty")
    assert "643" in suggest(page, "sum"), page.answer().text
    assert "fox" in suggest(page, "story") and "Mia" in page.answer().text, page.answer().text
    assert "4718" in suggest(page, "fact"), page.answer().text
    moved = set(page.script("return window.moved"))
    # Elements below a growing text go down with it; the end of a thought runs through its line.
    assert moved <= {"meta", "tail"}, f"moved by themselves: {moved}"
    assert page.script("return window.mostCarets") == 1

    page.set("tools", "[]")  # a person's own
    assert "get_weather" in suggest(page, "tool") and "Paris" in page.answer().text, page.answer().text
    assert json.loads(page.id("tools").get_attribute("value"))[0]["function"]["name"] == "get_weather"
    assert "get_weather" in page.text("tools-chip")
    page.shot("tool")
    page.script("[...document.querySelectorAll('.message button')].find(each => each.textContent.includes('result')).click()")
    page.wait(lambda: len(page.all(".message.assistant")) == 2)
    page.finished()
    assert "sunny" in page.answer().text and "21" in page.answer().text, page.answer().text
    assert len(page.all(".message.user")) == 1, "what the tool said is shown twice"
    assert page.all(".tool textarea[readonly]"), "what the tool said is gone"
    suggest(page, "tool")
    page.ask("Hello")  # instead of a result
    page.finished()
    assert not page.all(".tool textarea") and "result" not in page.script("return document.getElementById('messages').textContent")
    page.click("new-chat")
    assert page.id("tools").get_attribute("value") == "[]", "the suggestion's tools outlive its conversation"
    page.set("tools", "")
    page.no_complaints()


def chat(page):
    page.set("temperature", "0")
    page.set("max_tokens", "120")
    page.ask("What is the capital of France?")
    page.finished()
    assert "Paris" in page.answer().text, page.answer().text
    assert "prompt tokens" in page.meta() and "answer tokens" in page.meta() and "tokens/s" in page.meta(), page.meta()
    thinking = page.answer().find_element(By.CSS_SELECTOR, "details.thinking")
    assert thinking.is_displayed() and thinking.get_attribute("open") is None, "thinking is not collapsed"
    thinking.find_element(By.TAG_NAME, "summary").click()
    assert thinking.find_element(By.TAG_NAME, "div").text.strip()
    page.shot("chat")

    first = page.answer().find_element(By.CSS_SELECTOR, ".body").text
    page.browser.switch_to.active_element.send_keys(Keys.ALT, "r")
    page.finished()
    assert len(page.all(".message.assistant")) == 1, "regenerating added an answer"
    assert page.answer().find_element(By.CSS_SELECTOR, ".body").text == first, "greedy, and yet another answer"

    page.ask("What is the capital of Italy?")  # the conversation goes on
    page.finished()
    assert "Rome" in page.answer().text, page.answer().text
    offers = [each.get_attribute("title").split()[0] for each in page.all(".message .icon")]
    assert sorted(offers) == ["Copy", "Copy", "Regenerate", "What"], offers
    page.no_complaints()


def stop(page):
    """The answer cannot end before: the engine is paused."""
    def post(path):
        page.browser.execute_async_script("fetch(arguments[0], {method: 'POST'}).then(({status}) => arguments[1](status))", path)

    page.id("new-chat").click()
    assert not page.all(".message")
    page.set("max_tokens", "3000")
    post("/pause_generation")
    page.ask("Write a long story about a cat and a dog. " * 40)
    page.wait(lambda: page.id("stop").is_displayed())
    page.id("prompt").send_keys(Keys.ESCAPE)
    page.wait(lambda: page.id("send").is_displayed())
    post("/continue_generation")


def markdown(page):
    """Texts that a model may write, hostile parts included, through the page's own renderer."""
    html = page.browser.execute_async_script("""
      const done = arguments[arguments.length - 1];
      import('./markdown.js').then(({markdown}) => {
        const box = document.createElement('div');
        box.append(...markdown(arguments[0]));
        document.body.append(box);
        done(box.innerHTML);
        box.remove();
      });""", "# Title\n\n**bold** *it* `x<y` [good](https://e.org/a_(b)) [bad](javascript:alert(1))\n\n"
              "| a | b |\n|---|---|\n| 1 | 2 |\n\n1. one\n2. two\n   - inner\n\n```js\n<script>alert(1)</script>\n```\n"
              "1. first\n```py\na\n\n  b\n```\n2. second\n   ```yaml\n   - x\n   ```\n\n***both***\n\n- c\r\n- d\r\n\n## Closed ##\n\n"
              "<img src=x onerror=alert(1)>\n\n> quote\n\n```\nopen fence")
    for part in ("<h3>Title</h3>", "<strong>bold</strong>", "<em>it</em>", "<code>x&lt;y</code>",
                 '<a href="https://e.org/a_(b)" rel="noopener noreferrer" target="_blank">good</a>', "<span>bad</span>",
                 '<th scope="col">a</th>', "<td>2</td>", "<li>one</li>", "<ul><li>inner</li></ul>", "<blockquote>",
                 "<li>first", '<code data-language="py">a\n\n  b</code>', "<li>second", '<code data-language="yaml">- x</code>',
                 "<strong><em>both</em></strong>", "<li>c</li><li>d</li>", "<h4>Closed</h4>",
                 "&lt;script&gt;alert(1)&lt;/script&gt;", "&lt;img src=x", "open fence</code>"):
        assert part in html, f"{part} is not in {html}"
    assert "javascript:" not in html
    # Answers that repeat themselves: to the browser, nesting without end.
    depths = page.browser.execute_async_script("""
      const done = arguments[arguments.length - 1];
      import('./markdown.js').then(({markdown}) => done(['>', '1. '].map((part) => {
        let [at, depth] = [markdown(part.repeat(3000)).at(-1), 0];
        for (; at; at = at.lastElementChild) depth += 1;
        return depth;
      })));""")
    assert all(30 < depth < 100 for depth in depths), depths


def attention(page):
    page.id("new-chat").click()
    page.set("max_tokens", "40")
    page.ask("Write a short poem about a cat and a dog")
    page.finished()
    page.id("tab-tokens").click()
    page.wait(lambda: len(page.all("#token-list [role=button]")) > 3)
    assert "".join(span.get_attribute("textContent") for span in page.all("#token-list > *")).count("cat") >= 1
    page.all("#token-list [role=button]")[3].click()
    page.wait(lambda: "chosen" in (page.all("#token-list [role=button]")[3].get_attribute("class") or ""))
    assert "was chosen after reading" in page.text("tokens-note")
    assert page.script("return [...document.querySelectorAll('#token-list > *')].every(each => getComputedStyle(each).display === 'inline')"), \
        "a token is a box of its own, which a line break in it would lift"
    page.script("document.querySelector('#token-list .chosen').focus()")
    page.browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT, Keys.ENTER)  # the next token, by the keyboard
    page.wait(lambda: "chosen" in (page.all("#token-list [role=button]")[4].get_attribute("class") or ""))
    marked = [span for span in page.all("#token-list > *") if "rgba" in (span.get_attribute("style") or "")]
    assert marked, "nothing is highlighted"
    page.shot("attention")
    # As many tokens as a long context has, by a server that is made up.
    shown = page.browser.execute_async_script("""
      const done = arguments[arguments.length - 1];
      import('./tokens.js').then(async ({TokenView}) => {
        const [real, view] = [window.fetch, new TokenView()];
        const answer = {token_strs: Array(150000).fill('x'), keys: []};
        window.fetch = async () => new Response(JSON.stringify(answer));
        await view.take({prompt: Array(149999).fill(1), answer: [1]}).catch(done);
        window.fetch = real;
        const list = document.getElementById('token-list');
        done([list.childElementCount, list.lastElementChild.className]);
        list.replaceChildren();
      });""")
    assert shown == [150000, "chosen"], shown


def full_rows(page, selector, columns):
    """Tiles are in rows of `columns`, without a hole."""
    tops = page.script("return [...document.querySelectorAll(arguments[0])].map(each => each.getBoundingClientRect().top)", selector)
    rows = [tops.count(top) for top in sorted(set(tops))]
    assert set(rows) == {columns}, f"{selector}: rows of {rows}"


def engine(page):
    page.id("tab-engine").click()
    page.wait(lambda: "Busiest: expert" in page.text("expert-note"))
    # In one go: the page puts new elements there every second.
    numbers = dict(page.browser.execute_script(
        "return [...document.querySelectorAll('#numbers div')].map(cell => "
        "['dt', 'dd'].map(tag => cell.querySelector(tag).textContent))"))
    assert int(numbers["steps"].replace(",", "")) > 0, numbers
    assert numbers["state"] == "serving", numbers
    width, height = page.browser.execute_script("const c = document.getElementById('experts'); return [c.width, c.height]")
    assert width > 1 and height > 1
    page.wait(lambda: page.script("return document.querySelector('#chart-requests path').dataset.points > 2"))
    for chart in page.all(".charts svg"):
        axes = page.script("return ['x', 'y'].map(axis => [...arguments[0].querySelectorAll('text.' + axis)].map(each => each.textContent))",
                           chart)
        assert axes[0][-1] == "now" and "ago" in axes[0][0] and axes[1][0].split()[0] == "0" and len(axes[1]) == 3, axes
    full_rows(page, "#numbers > div", 5)
    full_rows(page, ".charts > figure", 2)
    page.shot("engine")
    page.no_complaints()


def tools(page):
    page.id("tab-chat").click()
    page.id("new-chat").click()
    page.set("tools", "[not json")
    page.id("prompt").send_keys("Weather?", Keys.ENTER)
    page.wait(lambda: "not JSON" in page.text("status"))
    page.set("tools", "")

    page.script("window.real = window.fetch; window.fetch = async () => { window.fetch = window.real; throw new TypeError('x'); };")
    page.ask("Are you there?")
    page.finished()
    assert page.answer().text == "The server does not answer.", page.answer().text
    page.script("""
      window.fetch = (path, options) => {
        if (path.endsWith('completions')) window.sent = JSON.parse(options.body).messages.map((m) => m.role);
        return window.real(path, options);
      };""")
    page.ask("And now?")
    page.finished()
    sent = page.script("window.fetch = window.real; return window.sent")
    assert "assistant" not in sent and sent[-2:] == ["user", "user"], sent

    # A call that is stopped midway is not sent back with the next message.
    page.id("new-chat").click()
    page.script("""
      const real = window.fetch;
      window.fetch = async (path, {signal}) => {
        window.fetch = real;
        return new Response(new ReadableStream({start(stream) {
          const calls = [{index: 0, function: {name: 'f', arguments: '{'}}];
          stream.enqueue(new TextEncoder().encode(`data: ${JSON.stringify({choices: [{delta: {tool_calls: calls}}]})}\\n\\n`));
          signal.onabort = () => stream.error(new DOMException('', 'AbortError'));
        }}));
      };""")
    page.ask("Call it")
    page.wait(lambda: page.all(".message .tool"))
    page.id("stop").click()
    page.finished()
    page.ask("What is the capital of France?")
    page.finished()
    assert not page.all(".message .error"), page.answer().text


def phone_and_dark(page):
    page.shot("phone")
    assert page.script("return document.documentElement.scrollWidth <= window.innerWidth"), "too wide"
    header = page.script("return document.querySelector('header').getBoundingClientRect().toJSON()")
    assert header["height"] <= 56, header
    for each in page.all("header a, header button"):
        assert header["top"] <= each.rect["y"] and each.rect["y"] + each.rect["height"] <= header["bottom"], each.rect
        assert 0 <= each.rect["x"] and each.rect["x"] + each.rect["width"] <= 390, each.rect
    page.id("panel-toggle").click()
    assert page.id("panel").is_displayed()
    page.id("panel-close").click()
    assert not page.id("panel").is_displayed()
    page.id("panel-toggle").click()
    page.browser.switch_to.active_element.send_keys(Keys.ALT, "s")
    assert not page.id("panel").is_displayed()
    before = page.browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    page.id("theme").click()
    after = page.browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert before != after, "the theme does not change"
    page.set("temperature", "0")
    suggest(page, "tool")
    hidden = page.script("const field = document.querySelector('.tool textarea'); return field.scrollHeight - field.clientHeight")
    assert hidden == 0, f"{hidden} px of a tool's result are out of sight"
    page.click("new-chat")
    page.set("max_tokens", "30")
    page.ask("The capital of Italy?")
    page.finished()
    meta = page.answer().find_element(By.CSS_SELECTOR, ".meta")
    assert meta.rect["height"] < 40, "the line under an answer is more than one"
    page.shot("phone_dark")
    page.id("tab-engine").click()
    page.wait(lambda: page.all("#chart-kv text"))
    full_rows(page, "#numbers > div", 2)
    page.shot("phone_engine")
    page.no_complaints()


def main():
    glint, model, *rest = sys.argv[1:]
    screenshots = rest[0] if rest else None
    with Served([glint, "serve"], model, "--spec", "mtp:2") as server:
        begin = time.monotonic()
        with Page(server.url, 1280, 800, screenshots) as page:
            for test in (suggestions, chat, markdown, attention, engine, tools, stop):
                test(page)
                print(f"{test.__name__}: ok ({time.monotonic() - begin:.1f} s)")
        with Page(server.url, 390, 844, screenshots) as page:
            phone_and_dark(page)
        with Page(server.url, 320, 568, screenshots) as page:
            theme = page.id("theme").rect
            assert theme["x"] + theme["width"] <= 320 >= page.script("return document.documentElement.scrollWidth"), theme
            page.id("tab-engine").click()
            page.wait(lambda: "Busiest: expert" in page.text("expert-note"))
            assert page.script("const view = document.getElementById('view-engine'); return view.scrollWidth <= view.clientWidth"), "too wide"
            print(f"phone_and_dark: ok ({time.monotonic() - begin:.1f} s)")


main()
