"""Bytes become the characters they stand for."""

from __future__ import annotations

from encodings.aliases import aliases

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.mail.encoding import _CODECS as CODECS
from app.mail.encoding import REFUSED, codec_name, decode_text
from app.mail.limits import MAX_TEXT_CHARS
from app.mail.parse import parse

RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 3
JAPANESE = (
    "いろはにほへと ちりぬるを わかよたれそ つねならむ。漢字かな交じり文です。" * 3
)
# The charsets in which mail was written before UTF-8, and a sentence in each language.
LETTERS = (
    ("gb2312 gb18030", "大家好,今天下午三点我们在会议室开会,请各位准时参加。"),
    ("big5", "大家好,今天下午三點我們在會議室開會,請各位準時參加。"),
    (
        "shift_jis euc-jp",
        "皆さん、こんにちは。今日の午後三時に会議室で会議があります。",
    ),
    (
        "euc-kr",
        "안녕하세요. 오늘 오후 세 시에 회의실에서 회의가 있습니다.",
    ),
    ("tis-620", "สวัสดีครับทุกคน วันนี้บ่ายสามโมงเรามีประชุมที่ห้องประชุม กรุณามาให้ตรงเวลา"),
    (
        "koi8-r windows-1251 iso-8859-5",
        "Здравствуйте, коллеги. Сегодня в три часа будет совещание, прошу прийти.",
    ),
    (
        "windows-1251",
        "Вітаю всіх, сьогодні вдень ми маємо зустріч, будь ласка, приходьте вчасно.",
    ),
    (
        "windows-1251",
        "Здравейте на всички, днес в три часа следобед имаме среща в голямата зала.",
    ),
    (
        "iso-8859-7",
        "Γεια σας, σήμερα στις τρεις το απόγευμα έχουμε συνάντηση στην αίθουσα.",
    ),
    ("windows-1255", "שלום לכולם, היום בשלוש אחר הצהריים יש לנו ישיבה בחדר הישיבות."),
    (
        "windows-1256 iso-8859-6",
        "مرحبا بالجميع، اليوم في الساعة الثالثة بعد الظهر لدينا اجتماع في القاعة الكبيرة.",
    ),
    (
        "iso-8859-9",
        "Merhaba arkadaşlar, bugün öğleden sonra üçte görüşelim, lütfen geç gelmeyin.",
    ),
    (
        "iso-8859-2",
        "Szia mindenki, ma délután három órakor megbeszélésünk lesz a nagyteremben.",
    ),
    (
        "windows-1250 iso-8859-2",
        "Ahoj všichni, dnes odpoledne ve tři hodiny máme schůzku v zasedací místnosti.",
    ),
    (
        "windows-1250",
        "Ahojte všetci, dnes o tretej popoludní máme stretnutie vo veľkej sále.",
    ),
    (
        "iso-8859-16",
        "Bună ziua tuturor, astăzi la ora trei după-amiază avem o ședință în sala mare.",
    ),
    (
        "windows-1257",
        "Sveiki visi, šiandien trečią valandą po pietų turime susirinkimą didžiojoje salėje.",
    ),
    (
        "iso-8859-13",
        "Sveiki visi, šodien trijos pēcpusdienā mums ir sapulce lielajā zālē.",
    ),
    (
        "windows-1252",
        "Bitte pünktlich zur Besprechung im großen Saal erscheinen, schöne Grüße.",
    ),
    (
        "windows-1252",
        "Bonjour à tous, la réunion aura lieu cet après-midi à trois heures.",
    ),
    (
        "windows-1252",
        "Hola a todos, hoy a las tres de la tarde tenemos una reunión en la sala.",
    ),
    (
        "windows-1252",
        "Ciao a tutti, siate puntuali per favore, perché gli altri sono già qui.",
    ),
    (
        "windows-1252",
        "Olá a todos, hoje às três da tarde temos uma reunião na sala grande.",
    ),
    (
        "windows-1252",
        "Hej alla, i eftermiddag har vi möte i stora salen.",
    ),
    (
        "windows-1252",
        "Sæl öll, í dag klukkan þrjú er fundur í stóra salnum.",
    ),
    (
        "windows-1252",
        "Eén ding nog: de geïnteresseerden moeten op tijd komen.",
    ),
)
NAMES = st.sampled_from(
    [
        "utf-8",
        "us-ascii",
        "utf-7",
        "utf-16",
        "hz",
        "iso-2022-jp",
        "idna",
        "punycode",
        "unicode_escape",
        "rot13",
        "zlib",
        "undefined",
        "x-unknown",
        "gb2312",
        "cp1252",
        "",
        "a\0b",
        "ü",
        '"utf-8"',
    ]
)


@given(st.binary(max_size=200), NAMES | st.text(max_size=10))
def test_any_bytes_in_any_charset_are_text_that_can_be_encoded(content, charset):
    """Decoding is total, and what comes out has no lone surrogates."""
    text, _ = decode_text(content, charset)

    assert text == text.encode("utf-8").decode("utf-8")


@given(st.text(st.characters(codec="utf-8"), max_size=50))
def test_utf8_needs_no_declaration(text):
    """What is valid UTF-8 is taken for it, unless another charset is declared."""
    assert (
        text
        == decode_text(text.encode(), "")[0]
        == decode_text(text.encode(), "us-ascii")[0]
    )


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("koi8-r", RUSSIAN),
        ("iso-8859-1", "Grüße"),
        ("iso-2022-jp", JAPANESE),
        ("gb2312", "镕基"),
        ("windows-874", "ใบแจ้งหนี้"),
        ("utf-16", "hi"),
        ("utf-7", "Grüße"),
    ],
)
def test_the_declared_charset_comes_first(charset, text):
    """Where the bytes fit, the declaration is believed."""
    codec = {"gb2312": "gb18030", "windows-874": "cp874"}.get(charset, charset)

    assert (text, True) == decode_text(text.encode(codec), charset)


@pytest.mark.parametrize(
    ("charset", "content"),
    [
        ("iso-2022-jp", b"\x1b$B-!@A5a=q-j;3ED|b66\x1b(B"),
        ("iso-2022-jp", b"\x1b$B-!@A5a=q-j;3ED|b\x1b(B\x1b$B66\x1b(B"),
        (
            "euc-jp",
            b"\xad\xa1\xc0\xc1\xb5\xe1\xbd\xf1\xad\xea\xbb\xb3\xc5\xc4\xfc\xe2\xb6\xb6",
        ),
    ],
)
def test_japanese_has_the_characters_of_windows(charset, content):
    """Declared charsets lack the numbers in circles and some names of people."""
    assert ("①請求書㈱山田髙橋", True) == decode_text(content, charset)


def test_a_long_text_of_such_characters_is_cut():
    """They are decoded one by one: four megabytes would take two seconds."""
    text, as_declared = decode_text(b"\x1b$B" + b"-!" * 300_000, "iso-2022-jp")

    assert (as_declared, set(text)) == (True, {"①"})
    assert MAX_TEXT_CHARS + 1 == len(text)


@pytest.mark.parametrize(
    "content", [b"\x1b$B-!@\x1b(B", b"\x1b$B)!\x1b(B", b"\x1b$B!", b"cost: \x1b$5"]
)
def test_escapes_of_no_charset_are_text(content):
    """A character cut in two, one that does not exist, and no escape at all."""
    assert (content.decode(), False) == decode_text(content, "iso-2022-jp")


def test_japanese_escapes_need_no_declaration():
    """Nothing else that is sent by mail has them."""
    content = JAPANESE.encode("iso-2022-jp")

    assert (JAPANESE, False) == decode_text(content, "")
    assert (JAPANESE, False) == decode_text(content, "utf-8")


@pytest.mark.parametrize(
    ("charset", "text"),
    [(charset, text) for charsets, text in LETTERS for charset in charsets.split()],
)
def test_without_a_declaration_the_charset_is_detected(charset, text):
    """Neither declared nor UTF-8: the detector decides."""
    content = text.encode(charset)

    assert (text, False) == decode_text(content, "")
    assert text == decode_text(content, "utf-8")[0]


@pytest.mark.parametrize(
    "text",
    [
        *("café", "Grüße", "año", "naïve", "smörgås", "São Paulo", "£100", "50 €"),
        "all “free” offers",
        "ÿ",
    ],
)
def test_windows_1252_is_the_last_resort(text):
    """Short texts are mostly in it, and the detector takes them for others."""
    assert (text, False) == decode_text(text.encode("cp1252"), "us-ascii")


META = '<html><meta http-equiv=Content-Type content="text/html; charset={}">'


@pytest.mark.parametrize("declared", ["", "; charset=us-ascii"])
@pytest.mark.parametrize(
    ("charset", "text"),
    [("gb2312", "优惠"), ("euc-kr", "무료"), ("shift_jis", "無料"), ("koi8-r", "да")],
)
def test_a_page_may_name_its_charset(charset, text, declared):
    """Its subject is in it as well, and too short to detect any."""
    page = f"{META.format(charset)}<p>{text}".encode(charset)
    head = f"Subject: {text}\nContent-Type: text/html{declared}\n\n".encode(charset)
    message = parse(head + page)

    assert (text, text) == (message.header("subject"), message.texts[0].content.strip())
    assert "charset-mismatch" not in message.defects


@pytest.mark.parametrize(
    ("text", "charset", "named"),
    [
        ("grün", "utf-8", "koi8-r"),
        ("grün", "cp1252", "utf-16"),
        ("Добрый день", "koi8-r", "x"),
    ],
)
def test_a_page_may_name_another_charset(text, charset, named):
    """It is read as mail programs show it: as UTF-8, or as it can be read."""
    page = f"{META.format(named)}<p>{text}".encode(charset)
    message = parse(b"Content-Type: text/html\n\n" + page)

    assert [text] == [each.content.strip() for each in message.texts]


def test_a_byte_of_no_charset_is_a_character():
    """Windows-1252 lacks five of them."""
    assert ("a\ufffdb", False) == decode_text(b"a\x81b", "")


@pytest.mark.parametrize("before", [b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0"])
def test_a_text_in_ascii_is_not_detected_as_another(before):
    """Two bytes before it would hide it all."""
    text, _ = decode_text(before + b"a text that is read by all", "utf-8")

    assert text.endswith("a text that is read by all")


def test_a_cut_character_does_not_lose_the_rest():
    """A message cut in the middle of a character keeps the characters before."""
    text, as_declared = decode_text(RUSSIAN.encode()[:-3], "utf-8")

    assert text.startswith(RUSSIAN[:-4])
    assert not as_declared


@pytest.mark.parametrize("charset", ["gb2312", "euc-kr", "shift_jis", "big5", "euc-jp"])
def test_a_short_text_with_broken_characters_is_as_declared(charset):
    """Subjects are cut in a character, and the detector knows too little of them."""
    text = "무료" if charset == "euc-kr" else "中文大小"
    content = text.encode(charset)

    assert (text[:-1] + "\ufffd", False) == decode_text(content[:-1], charset)
    broken = content + content[:1] + b"!"
    assert (f"{text}\ufffd!", False) == decode_text(broken, charset)


def test_a_long_text_with_broken_characters_is_cut():
    """They are replaced one by one: four megabytes would take a second."""
    content = "特價".encode("big5") * MAX_TEXT_CHARS + b"\x81"

    assert 2 * MAX_TEXT_CHARS > len(decode_text(content, "big5")[0]) > MAX_TEXT_CHARS


def test_text_that_loses_most_characters_is_not_as_declared():
    """Mail from Korea and China declares its charset for any text."""
    text = "Un café à Orléans, à l'été: là, déjà."

    assert text == decode_text(text.encode("cp1252"), "big5")[0]


@pytest.mark.parametrize(
    "name", ["rot13", "hex", "idna", "unicode_escape", "x-none", "a\0b", "ü", "cp037"]
)
def test_names_that_are_no_charset_of_mail_are_refused(name):
    """Codecs that are dangerous, or not for mail, are unknown."""
    assert not codec_name(name)
    assert ("Grüße", False) == decode_text("Grüße".encode(), name)
    assert ("hello", False) == decode_text(b"hello", name)


def test_lone_surrogates_of_utf_7_are_replaced():
    """They could not be hashed."""
    assert ("?", True) == decode_text(b"+2AA-", "utf-7")


def test_every_label_of_python_is_known():
    """The table has all that the registry would find, but for what is refused."""
    # Python itself compares labels in lower case, and has one alias that is not.
    for label, codec in aliases.items() - {("csHPRoman8", "hp_roman8")}:
        assert bool(codec_name(label)) is (codec not in REFUSED)
        assert codec_name(label) == codec_name(label.upper().replace("_", "-"))


@given(st.binary(max_size=60))
def test_no_codec_fails_on_any_bytes(content):
    """Whatever it does, there is a text, and it can be encoded."""
    for codec in set(CODECS.values()):
        text, _ = decode_text(content, codec)

        assert isinstance(text.encode(), bytes), codec


@pytest.mark.parametrize(
    ("label", "codec"),
    [("x-sjis", "cp932"), ("x-cp1252", "cp1252"), ("windows-949", "cp949")],
)
def test_labels_of_browsers_are_known(label, codec):
    """The Encoding Standard has some that Python lacks."""
    assert codec == codec_name(label)
