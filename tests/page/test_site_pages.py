"""Keys, people, lists and teachers in a real browser: what an administrator does."""

from __future__ import annotations

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.page.conftest import PHONE
from tests.page.test_page import press, show, shows, spilt, wait
from tests.support.messages import ham, spam

SCROLL = "document.getElementById('teachers').scrollIntoView({behavior: 'instant'})"
PASSWORD, ANOTHER = "correct horse", "another horse"


def fill(browser, **fields):
    """Type into the fields of a page, by their names."""
    for name, text in fields.items():
        browser.find_element(By.NAME, name).send_keys(text)


def test_a_key_is_made_and_revoked_by_keyboard(browser, site, picture):
    """It is shown once, and refused as soon as it is revoked, which takes two steps."""
    show(browser, "/ui/keys")
    fill(browser, name="mx1", networks="127.0.0.1, 192.0.2.0/24")
    browser.find_element(By.NAME, "right-read").send_keys(Keys.SPACE)
    fill(browser, days="365")
    press(browser, Keys.TAB, Keys.TAB, Keys.ENTER)
    wait(browser, shows("The key mx1"))
    picture("keys")
    key = {"X-API-Key": browser.find_element(By.ID, "key").text}
    used = site.client.get("/ledger", headers=key).status_code
    show(browser, "/ui/keys")
    shown = browser.find_element(By.TAG_NAME, "main").text
    button = browser.find_element(By.CSS_SELECTOR, "form[action$=revoke] button")
    at_once = button.is_displayed()
    browser.find_element(By.CSS_SELECTOR, "td summary").send_keys(Keys.ENTER)
    press(browser, Keys.TAB, Keys.ENTER)
    wait(browser, shows("The key mx1 is revoked"))

    assert (200, False) == (used, at_once)
    assert key["X-API-Key"].startswith("pb_")
    assert key["X-API-Key"] not in shown
    assert 401 == site.client.get("/ledger", headers=key).status_code


def test_a_person_signs_in_and_changes_the_password(browser, site):
    """The browser goes on with the session of the new one."""
    person = {"name": "tim", "role": "teacher", "password": PASSWORD}
    site.client.post("/people", json=person).raise_for_status()
    show(browser, "/ui/sign-in?next=/ui/review")
    fill(browser, name="tim", password=PASSWORD + Keys.ENTER)
    wait(browser, shows("Review"))
    before = browser.get_cookies()
    browser.find_element(By.LINK_TEXT, "tim").click()
    wait(browser, shows("Current password"))
    fill(browser, password=PASSWORD, new=ANOTHER, again=ANOTHER + Keys.ENTER)
    wait(browser, shows("Your password is changed."))
    show(browser, "/ui/history")
    wait(browser, shows("History"))
    after = browser.get_cookies()
    browser.find_element(By.XPATH, "//button[.='Sign out']").click()
    wait(browser, shows("Sign in"))
    show(browser, "/ui/people")
    fields = browser.find_elements(By.CSS_SELECTOR, "form[action$=password] input")
    for field, text in zip(fields[1:], ("tim", PASSWORD + Keys.ENTER), strict=True):
        field.send_keys(text)
    wait(browser, shows("The new password is set"))
    show(browser, "/ui/events")

    assert "user:tim" in browser.find_element(By.TAG_NAME, "main").text
    old, new = (
        next(each["value"] for each in found if each["name"] == "postbayes_session")
        for found in (before, after)
    )
    assert old != new
    assert [] == [
        each["name"]
        for each in browser.get_cookies()
        if each["name"] == "postbayes_session"
    ]


def test_a_sender_is_allowed_and_no_longer(browser, site, picture):
    """With a reason; the entry can be read before it is removed, by two clicks."""
    show(browser, "/ui/lists")
    fill(browser, entry="office@harbour.example", note="books our berth" + Keys.ENTER)
    wait(browser, shows("The entry is set"))
    picture("lists")
    row = browser.find_element(By.CSS_SELECTOR, "tr[data-row]").text
    [entry] = site.client.get("/profiles/default/lists").json()["entries"]
    button = browser.find_element(By.CSS_SELECTOR, "form[action$=remove] button")
    at_once = button.is_displayed()
    browser.find_element(By.CSS_SELECTOR, "tr summary").click()
    button.click()
    wait(browser, shows("The entry is removed"))

    assert "books our berth" in row
    assert not at_once
    assert ("office@harbour.example", -5) == (entry["entry"], entry["nats"])
    assert [] == site.client.get("/profiles/default/lists").json()["entries"]


def test_the_overview_names_a_suspect(browser, site, picture):
    """Who contradicts what the filter was sure of; the name leads to the lessons."""
    lessons = [(ham(n), "ham", "colleague") for n in range(90, 100)]
    for n in range(100, 110):
        lessons += (ham(n), "spam", "old-script"), (spam(n), "ham", "old-script")
    for raw, label, source in lessons:
        site.client.post(
            "/feedback",
            params={"label": label, "source": source},
            content=raw,
            headers={"Content-Type": "message/rfc822"},
        ).raise_for_status()
    show(browser, "/ui/overview")
    browser.execute_script(SCROLL)
    out = spilt(browser)
    picture("teachers")
    row = browser.find_element(By.XPATH, "//tr[th[contains(., 'old-script')]]")
    suspect = "suspect" in row.text
    browser.find_element(By.LINK_TEXT, "old-script").send_keys(Keys.ENTER)
    wait(browser, shows("Rows of"))
    shown = len(browser.find_elements(By.CSS_SELECTOR, "tr[data-row]"))

    assert [] == out
    assert suspect
    assert 20 == shown


def test_no_bar_runs_out_of_its_picture_on_a_phone(browser, site):
    """Names, bars and numbers of a report stand in the width of the screen."""
    rows = "".join(
        f"{kind},{size},{kind} as it is counted by the clerk\n"
        for kind, size in (("a", 1), ("a", 2), ("b", 7), ("b", 9), ("c", -40))
    )
    (site.folder / "clerk.csv").write_text(f"class,size,remark\n{rows}")
    arguments = ("--target", "class", "--as", "remark=text", "--report", "clerk.html")
    done = site.command("lab", "clerk.csv", *arguments)
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    browser.get((site.folder / "clerk.html").as_uri())
    pictures, out = browser.execute_script(
        "const pictures = [...document.querySelectorAll('svg.bars')];"
        "const box = (each) => each.getBoundingClientRect();"
        "return [pictures.length, pictures.flatMap((each) => "
        "[...each.querySelectorAll('rect, text')].filter((mark) => "
        "box(mark).left < box(each).left || box(mark).right > innerWidth)"
        ".map((mark) => mark.textContent))]"
    )

    assert 0 == done.returncode, done.stderr
    assert 0 < pictures
    assert [] == out


def test_tables_and_searches_fit_a_desk(browser):
    """No table is scrolled to the side, and the fields of a search stand in one line."""
    for path in ("/ui/history", "/ui/ledger", "/ui/site", "/ui/keys"):
        show(browser, path)
        cut = browser.execute_script(
            "return [...document.querySelectorAll('.wide')]"
            ".filter((each) => each.scrollWidth > each.clientWidth).length"
        )
        lines = browser.execute_script(
            "return [...document.querySelectorAll('form[role=search] > :not([hidden])')]"
            ".filter((each) => each.offsetHeight)"
            ".map((each) => Math.round(each.getBoundingClientRect().bottom))"
        )

        assert 0 == cut, path
        assert len(set(lines)) <= 1, path
