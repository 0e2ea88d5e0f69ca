"""A pasted mail is understood, and an afternoon is taken back, in a real browser."""

from __future__ import annotations

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.page.conftest import PHONE
from tests.page.test_page import press, show, shows, wait, written
from tests.support.messages import spam

MAIL = (
    "From: Winner <win@prizes.example>\nSubject: Your free prize\n\n"
    "Claim your free money now! <script>document.title = 'taken'</script>\n"
    "See you at noon in the usual place.\n"
)
# Its first line is in English: the others must not get its direction.
ARABIC = (
    "Subject: offer\n\nA free prize for you.\n"
    "\u0645\u0631\u062d\u0628\u0627 \u0644\u0642\u062f "
    "\u0631\u0628\u062d\u062a \u062c\u0627\u0626\u0632\u0629\n"
)
WORDS = """
const found = [...document.querySelectorAll(".shaded")].at(-1);
const texts = document.createTreeWalker(found, NodeFilter.SHOW_TEXT);
const lefts = [];
while (texts.nextNode()) {
  for (const word of texts.currentNode.data.matchAll(/[\u0600-\u06ff]+/g)) {
    const range = document.createRange();
    range.setStart(texts.currentNode, word.index);
    range.setEnd(texts.currentNode, word.index + word[0].length);
    lefts.push(range.getBoundingClientRect().left);
  }
}
return lefts;
"""
# The note of a word whose feature is Arabic, in the direction of its line.
NOTE = """
const words = [...document.querySelectorAll(".shaded mark")];
const [title] = words.map((each) => each.title).filter((each) => /[\u0600-\u06ff]/.test(each));
const line = document.querySelector("main").appendChild(document.createElement("p"));
line.dir = "rtl";
line.style.whiteSpace = "nowrap";
line.textContent = title;
return [...title.matchAll(/nats|(?<=; ).+?(?= [+\u2212]\\d)|[+\u2212]\\d[\\d.]*/g)].map((each) => {
  const range = document.createRange();
  range.setStart(line.firstChild, each.index);
  range.setEnd(line.firstChild, each.index + each[0].length);
  return [range.getBoundingClientRect().right, each[0]];
});
"""
DROP = """
const found = new DataTransfer();
found.items.add(new File([arguments[0]], "mail.eml"));
document.dispatchEvent(
  new DragEvent("drop", { dataTransfer: found, bubbles: true, cancelable: true })
);
"""


def learned(site):
    """Return what the profile has learned."""
    return site.client.get("/profiles/default").json()["messages"]


def note_of(browser):
    """Return what the focused word shows, and how it is placed."""
    return browser.execute_script(
        "const note = getComputedStyle(document.activeElement, '::after');"
        "return [note.content, note.position]"
    )


def test_a_pasted_message_is_understood_by_keyboard(browser, site, picture):
    """Paste, show, and go from word to word: each says what it adds, and why."""
    before = learned(site)
    show(browser, "/ui/message")
    press(browser, "/")
    press(browser, *MAIL)
    press(browser, Keys.TAB, Keys.TAB, Keys.ENTER)
    wait(browser, shows("Where the log-odds come from"))
    # At once: a picture in the middle of smooth scrolling cuts a heading.
    browser.execute_script(
        "document.getElementById('verdict').scrollIntoView({behavior: 'instant'})"
    )
    picture("message")
    words = browser.find_elements(By.CSS_SELECTOR, ".mail mark[tabindex='0']")
    browser.execute_script("arguments[0].focus()", words[0])
    note, position = note_of(browser)
    press(browser, Keys.TAB)

    assert words[1] == browser.switch_to.active_element
    assert "nats here" in note
    assert "spam" in note
    # A passage scrolls, and would cut off what stands out of it.
    assert "fixed" == position
    assert "Message · Postbayes" == browser.title
    press(browser, "s")
    wait(browser, shows("learned as spam"))
    assert before["spam"] + 1 == learned(site)["spam"]


def test_a_message_is_dropped_on_the_page(browser):
    """The drop works anywhere, and the browser does not open the file."""
    explain(browser, MAIL)

    assert "Claim" in browser.find_element(By.CLASS_NAME, "mail").text


def explain(browser, mail):
    """Show a mail as the filter reads it."""
    show(browser, "/ui/message")
    browser.execute_script(DROP, mail)
    wait(browser, shows("As the filter reads it"))


def emulate(browser, media="", **features):
    """Have the browser print, or have preferences."""
    named = [{"name": n.replace("_", "-"), "value": v} for n, v in features.items()]
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"media": media, "features": named}
    )


def test_a_line_is_read_in_its_own_direction(browser, site):
    """The words of an Arabic line go from right to left, marked or not."""
    before = learned(site)
    taught = site.client.post(
        "/feedback",
        params={"label": "spam"},
        content=ARABIC.encode(),
        headers={"Content-Type": "message/rfc822"},
    ).json()
    explain(browser, ARABIC)
    lefts = browser.execute_script(WORDS)
    note = browser.execute_script(NOTE)
    marked = browser.find_elements(By.CSS_SELECTOR, ".shaded mark")
    site.client.post("/feedback/undo", json={"ids": [taught["id"]]})

    assert 4 == len(lefts)
    assert sorted(lefts, reverse=True) == lefts
    assert marked
    # The note is in English: first its number, and each feature before its own.
    assert "nats" == note[1][1]
    assert sorted(note) == note
    wait(browser, lambda _: learned(site) == before)


def test_marked_words_can_be_read_in_forced_colours(browser, site):
    """They have the colour of other text, and a row shows that it has the focus."""
    wait(browser, written(site))
    emulate(browser, forced_colors="active", prefers_color_scheme="dark")
    try:
        explain(browser, MAIL)
        mark, text = browser.execute_script(
            "return ['.shaded mark', 'main'].map((each) => "
            "getComputedStyle(document.querySelector(each)).color)"
        )
        show(browser, "/ui/history")
        press(browser, "j")
        outline = browser.execute_script(
            "return getComputedStyle(document.activeElement).outlineStyle"
        )
    finally:
        emulate(browser)

    assert text == mark
    assert "solid" == outline


def test_a_long_message_is_printed_whole(browser):
    """On the screen, it scrolls; no page is printed with its forms."""
    explain(browser, MAIL + "Money.\n" * 90)
    cut = "const last = [...document.querySelectorAll('.shaded')].at(-1);"
    cut += "return last.scrollHeight > last.clientHeight + 1"
    on_screen = browser.execute_script(cut)
    emulate(browser, "print")
    try:
        printed = browser.execute_script(cut)
        show(browser, "/ui/history")
        forms = [
            each.is_displayed() for each in browser.find_elements(By.TAG_NAME, "form")
        ]
    finally:
        emulate(browser)

    assert (True, False) == (on_screen, printed)
    assert forms
    assert not any(forms)


def test_no_table_of_a_message_is_scrolled_on_a_phone(browser):
    """Not every browser scrolls by keyboard what holds no link."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    explain(browser, MAIL)

    assert [] == browser.execute_script(
        "return [...document.querySelectorAll('.wide')].filter((each) => "
        "each.scrollWidth > each.clientWidth).map((each) => each.innerText)"
    )


def test_an_afternoon_is_taken_back_by_keyboard(browser, site, picture):
    """Filter, dry run, look, and do it: the counts are those of before."""
    before = learned(site)
    for n in range(200, 206):
        site.client.post(
            "/feedback",
            params={"label": "ham", "source": "afternoon"},
            content=spam(n),
            headers={"Content-Type": "message/rfc822"},
        )
    show(browser, "/ui/ledger")
    press(browser, "/")
    press(browser, "afternoon", Keys.ENTER)
    wait(browser, lambda b: "source=afternoon" in b.current_url)
    press(browser, "t", Keys.ENTER)
    wait(browser, shows("Nothing has changed yet"))
    picture("undo")

    assert "6" == browser.find_element(By.ID, "rows").text
    assert before["ham"] + 6 == learned(site)["ham"]
    press(browser, "t", Keys.ENTER)
    wait(browser, shows("is recorded"))
    wait(browser, lambda _: learned(site) == before)
