"""A pasted mail is understood, and an afternoon is taken back, in a real browser."""

from __future__ import annotations

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.page.test_page import press, show, shows, wait
from tests.support.messages import spam

MAIL = (
    "From: Winner <win@prizes.example>\nSubject: Your free prize\n\n"
    "Claim your free money now! <script>document.title = 'taken'</script>\n"
    "See you at noon in the usual place.\n"
)
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
    wait(browser, shows("Taught as spam"))
    assert before["spam"] + 1 == learned(site)["spam"]


def test_a_message_is_dropped_on_the_page(browser):
    """The drop works anywhere, and the browser does not open the file."""
    show(browser, "/ui/message")
    browser.execute_script(DROP, MAIL)
    wait(browser, shows("As the filter reads it"))

    assert "Claim" in browser.find_element(By.CLASS_NAME, "mail").text


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
