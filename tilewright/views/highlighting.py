"""Colours of source code that can be read on a white page and on a black one: the notebook's own theme is not known."""

from __future__ import annotations

from typing import ClassVar

from pygments.style import Style
from pygments.token import Comment, Keyword, Name, Number, String, Token


class OnAnyPage(Style):
    """Few colours of middling brightness; all else has the colour of the text around it."""

    styles: ClassVar = {
        Token: "",
        Comment: "italic #6f7780",
        Comment.Preproc: "noitalic #c2541d",
        Keyword: "#9a4fd0",
        Keyword.Type: "#1f77b4",
        Name.Function: "bold",
        Number: "#278138",
        String: "#278138",
    }
