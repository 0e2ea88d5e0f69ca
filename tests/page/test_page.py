"""The pages in a real browser: what an operator does with keyboard, mouse and phone."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests.page.conftest import DESK, PHONE, TABLET, ZOOMED

ROWS = "tr[data-row]"
PATHS = (
    *("overview", "history", "review", "message", "ledger", "words"),
    *("lists", "site", "keys", "people", "events", "password", "sign-in"),
)
CONTROLS = {
    *("button", "checkbox", "combobox", "link", "listbox", "radio"),
    *("searchbox", "spinbutton", "textbox"),
}
PATIENCE = 120
"""Seconds after which a page is not what it should be."""


def wait(browser, condition):
    """Wait until a condition holds, and return what it gives."""
    return WebDriverWait(browser, PATIENCE, poll_frequency=0.05).until(condition)


def show(browser, path):
    """Open a page of the service."""
    browser.get(browser.site + path)


def press(browser, *keys):
    """Type keys, wherever the focus is."""
    ActionChains(browser).send_keys(*keys).perform()


def written(site):
    """Wait until the history has all that was scored."""

    def there(browser):
        found = site.client.get("/history?limit=200").json()["entries"]
        return site.ids <= {each["id"] for each in found}

    return there


def shows(text):
    """Return the condition that a page has loaded, and its main part shows a text."""

    def condition(browser):
        ready = browser.execute_script("return document.readyState") == "complete"
        return ready and text in browser.execute_script(
            "return document.querySelector('main')?.innerText ?? ''"
        )

    return condition


def label_of(site, id_):
    """Return what a message is taught as."""
    entries = site.client.get(f"/history/{id_}").json()["entries"]
    return entries[0]["label"]


def spilt(browser):
    """Return the cards that are narrower than what they hold."""
    return browser.execute_script(
        "return [...document.querySelectorAll('.card, .wide')].filter((each) => "
        "each.scrollWidth > each.clientWidth && "
        "getComputedStyle(each).overflowX === 'visible').map((each) => each.innerText)"
    )


def focused(browser):
    """Return the id of the element that has the focus."""
    return browser.execute_script("return document.activeElement.id")


def test_a_message_is_found_taught_and_taken_back_by_keyboard(browser, site, picture):
    """Search, go to the row, teach, take back: ten keys and the search."""
    wait(browser, written(site))
    show(browser, "/ui/history")
    press(browser, "/")
    press(browser, "regatta", Keys.ENTER)
    wait(browser, lambda b: len(b.find_elements(By.CSS_SELECTOR, ROWS)) == 1)
    press(browser, "j")
    row = focused(browser)
    id_ = row.split("-")[1]
    press(browser, "h")
    wait(browser, shows("learned as ham"))

    assert "ham" == label_of(site, id_)
    assert row == focused(browser)
    assert "regatta" in browser.current_url
    picture("history-taught")
    press(browser, "u")
    wait(browser, shows("taken back, as if it had never been taught"))
    assert label_of(site, id_) is None


def test_the_mouse_teaches_without_any_script(browser, site):
    """Every button is a form."""
    wait(browser, written(site))
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(browser, "/ui/history?search=berth")
        browser.find_element(By.CSS_SELECTOR, "button[data-key=s]").click()
        wait(browser, lambda b: "said=learned" in b.current_url)
        notice = browser.find_element(By.CSS_SELECTOR, ".notice").text
        browser.find_element(By.CSS_SELECTOR, "button[data-key=u]").click()
        wait(browser, lambda b: "said=undone" in b.current_url)
    finally:
        browser.execute_cdp_cmd(
            "Emulation.setScriptExecutionDisabled", {"value": False}
        )

    assert "learned as spam" in notice


def test_the_review_goes_from_message_to_message(browser, site, picture):
    """What was taught leaves the page, and the next row has the focus."""
    wait(browser, written(site))
    show(browser, "/ui/review")
    picture("review")
    before = [
        row.get_attribute("id") for row in browser.find_elements(By.CSS_SELECTOR, ROWS)
    ]
    press(browser, "j")
    assert before[0] == focused(browser)
    drawn, shadow = browser.execute_script(
        "const style = getComputedStyle(document.activeElement);"
        "return [style.backgroundImage, style.boxShadow]"
    )
    # The bar of the row with the focus; WebKit draws no shadow on a row.
    assert drawn.startswith("linear-gradient")
    assert "none" == shadow
    press(browser, "s")
    wait(browser, shows("learned as spam"))

    assert before[1] == focused(browser)
    assert [] == browser.find_elements(By.ID, before[0])


def test_the_keys_are_shown_when_asked(browser):
    """Escape closes them, and a page without messages has them too."""
    show(browser, "/ui/overview")
    press(browser, "?")
    dialog = browser.find_element(By.ID, "keyboard")
    wait(browser, lambda _: dialog.is_displayed())
    press(browser, Keys.ESCAPE)
    wait(browser, lambda _: not dialog.is_displayed())


def test_single_keys_can_be_turned_off(browser):
    """For people who dictate: a word must not teach messages (WCAG 2.2, 2.1.4)."""
    name = "return document.activeElement.name"
    show(browser, "/ui/history")
    press(browser, "?")
    box = browser.find_element(By.ID, "single-keys")
    wait(browser, lambda _: box.is_displayed())
    box.send_keys(Keys.SPACE)
    browser.find_element(By.XPATH, "//dialog//button").click()
    try:
        press(browser, "/")
        at_once = browser.execute_script(name)
        show(browser, "/ui/history")
        press(browser, "/")
        later = browser.execute_script(name)
    finally:
        browser.execute_script("localStorage.clear()")
    show(browser, "/ui/history")
    press(browser, "/")

    assert {"search"}.isdisjoint({at_once, later})
    assert "search" == browser.execute_script(name)


def test_a_page_that_a_browser_kept_is_asked_for_again(browser):
    """WebKit keeps it although it must not be stored, and the session may have ended."""
    show(browser, "/ui/history")
    left = browser.execute_script(
        "window.kept = true; dispatchEvent(new PageTransitionEvent('pagehide'));"
        "return document.getElementById('main').getClientRects().length"
    )
    browser.execute_script(
        "dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))"
    )
    wait(browser, lambda b: not b.execute_script("return window.kept"))
    wait(browser, shows("History"))

    assert 0 == left


def test_an_address_with_a_mangled_end_is_no_error(browser):
    """The ends that the pages write have nothing to decode."""
    show(browser, "/ui/history#%")
    wait(browser, shows("History"))


@pytest.mark.parametrize("path", PATHS)
def test_no_page_is_wider_than_a_phone(browser, site, picture, path):
    """The body does not scroll sideways; a wide table scrolls in itself."""
    show(browser, f"/ui/{path}")
    on_a_desk = spilt(browser)
    wait(browser, written(site))
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    show(browser, f"/ui/{path}")
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    if path == "overview":
        picture("overview-phone")

    assert wide <= PHONE["width"]
    assert ([], []) == (on_a_desk, spilt(browser))


def test_what_is_typed_can_be_read_in_the_dark(browser):
    """A field has the colour of text, and its hint that of labels, which are legible."""
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": dark})
    try:
        show(browser, "/ui/keys")
        field, hint, text, label = browser.execute_script(
            "const field = document.querySelector('[placeholder]');"
            "return [[field], [field, '::placeholder'], [document.body], "
            "[field.closest('label')]].map((each) => getComputedStyle(...each).color)"
        )
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    assert (text, label) == (field, hint)
    assert text != label


def test_facts_are_no_column_of_letters_however_enlarged(browser):
    """The name of a fact leaves room for the fact."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", ZOOMED)
    show(browser, "/ui/overview")
    shares = browser.execute_script(
        "return [...document.querySelectorAll('.facts dd')].map("
        "(each) => each.offsetWidth / each.parentElement.offsetWidth)"
    )

    assert 0.35 < min(shares)


@pytest.mark.parametrize("screen", [PHONE, TABLET, DESK])
def test_every_page_is_in_sight_and_a_subject_has_most_of_the_row(
    browser, site, screen
):
    """No link of the navigation is cut off, and no message is squeezed by figures."""
    wait(browser, written(site))
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    show(browser, "/ui/history")
    links = browser.execute_script(
        "return [...document.querySelectorAll('nav a')].map("
        "(each) => each.getBoundingClientRect()).map((each) => [each.left, each.right])"
    )
    heads = browser.execute_script(
        "return [...document.querySelectorAll('tr[data-row] > th')].map("
        "(each) => each.offsetWidth / each.closest('table').offsetWidth)"
    )

    assert all(0 <= left < right <= screen["width"] for left, right in links)
    assert 0.4 < min(heads)


def test_the_description_of_the_interface_fits_a_phone(browser):
    """Long paths, names of fields and commands are broken."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    show(browser, "/docs")

    assert PHONE["width"] == browser.execute_script(
        "return Math.max(document.documentElement.scrollWidth, "
        "...[...document.querySelectorAll('pre')].map((each) => each.scrollWidth))"
    )


@pytest.mark.parametrize("path", PATHS)
def test_a_screen_reader_names_what_a_page_has(browser, site, path):
    """Each control, table, search and picture; and one heading of the page."""
    wait(browser, written(site))
    show(browser, f"/ui/{path}")
    wait(browser, shows(""))
    tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    found = [
        (each["role"]["value"], each.get("name", {}).get("value", ""))
        for each in tree
        if not each["ignored"]
    ]
    named = {*CONTROLS, "table", "search", "image", "navigation"}

    assert "main" in {role for role, _ in found}
    assert [] == [role for role, name in found if role in named and not name.strip()]
    assert 1 == len(browser.find_elements(By.TAG_NAME, "h1"))


def test_the_overview_is_read_on_a_desk(browser, site, picture):
    """Figures, pictures and what waits."""
    wait(browser, written(site))
    show(browser, "/ui/overview")
    figures = browser.find_elements(By.CSS_SELECTOR, "main figure svg[role=img]")
    picture("overview")

    assert 3 == len(figures)
    assert all(each.size["width"] > 200 for each in figures)
    assert "Ham lost" in browser.find_element(By.TAG_NAME, "main").text


def test_one_message_is_explained(browser, site, picture):
    """From the history with the key that opens it."""
    wait(browser, written(site))
    show(browser, "/ui/history")
    picture("history")
    show(browser, "/ui/history?search=winner")
    press(browser, "j")
    press(browser, "o")
    wait(browser, shows("Verdict now"))

    assert "WINNER" in browser.find_element(By.TAG_NAME, "h1").text
