"""Access to the page's data requires the token in the address."""

from playwright.sync_api import expect


def test_the_token_is_removed_from_the_address_and_kept_in_the_tab(page, address):
    page.goto(address)
    page.locator(".sum").wait_for()
    assert "token" not in page.url
    page.reload()
    expect(page.locator(".sum")).to_contain_text("6 nodes")


def test_without_token_the_page_asks_for_it(open_tab, address):
    bare, _, token = address.partition("#token=")
    with open_tab() as tab:
        tab.page.goto(bare)
        expect(tab.page.get_by_role("alert")).to_contain_text("requires its token")
        tab.page.get_by_role("textbox").fill("wrong")
        tab.page.get_by_role("button", name="Open").click()
        expect(tab.page.get_by_role("alert")).to_contain_text("not the token")
        tab.page.get_by_role("textbox").fill(token)
        tab.page.get_by_role("button", name="Open").click()
        expect(tab.page.locator(".sum")).to_contain_text("6 nodes")
        # The browser itself logs an error for each refusal.
        assert all("401" in complaint for complaint in tab.complaints)
        tab.complaints.clear()
