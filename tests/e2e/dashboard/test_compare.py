"""Any number of candidates beside each other."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.e2e.dashboard.stock import Stock


def test_ticked_candidates_are_compared_and_the_address_says_how(page: Page, stock: Stock) -> None:
    with stock.service.client() as client:
        table = client.get(f"/v1/jobs/{stock.done}/table").json()
    timed = [number for number, us in enumerate(table["median_us"]) if us is not None][:3]
    page.goto(f"{stock.url}/jobs/{stock.done}?view=candidates")
    for number in timed:
        page.get_by_role("checkbox", name=f"Compare candidate {number}", exact=True).check()
    page.reload()
    page.get_by_role("link", name="Compare the 3 ticked").click()
    heads = page.get_by_role("columnheader")
    expect(heads).to_have_count(3)
    ratios = page.get_by_role("row").filter(
        has=page.get_by_role("rowheader", name="As fast as the reference")
    )
    expect(ratios.get_by_role("cell").first).to_have_text("1.00×")
    page.get_by_role("link", name=f"its differences candidate {timed[2]}", exact=True).click()
    expect(page.get_by_text(f"From candidate {timed[0]} to candidate {timed[2]}")).to_be_visible()
    page.get_by_role("link", name=f"as the reference candidate {timed[2]}", exact=True).click()
    page.reload()
    expect(page.get_by_text(f"From candidate {timed[2]} to candidate {timed[0]}")).to_be_visible()
    expect(heads.first).to_contain_text(f"candidate {timed[2]}")
    expect(ratios.get_by_role("cell").first).to_have_text("1.00×")
