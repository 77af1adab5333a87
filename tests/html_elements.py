"""What a page of HTML is made of."""

from html.parser import HTMLParser


class Elements(HTMLParser):
    """Tags with their attributes, the text in scripts and styles, and comments."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.comments, self._open = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in {"script", "style"}:
            self._open = (tag, dict(attrs))

    def handle_data(self, data):
        if self._open:
            self.scripts.append((*self._open, data))
            self._open = None

    def handle_comment(self, data):
        self.comments.append(data)
