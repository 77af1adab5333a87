"""Secrets that show by their shape alone: keys with a prefix, addresses, private keys.

The prefixes are those that issuers document and that scanners for leaked secrets look for (GitHub's
secret scanning, gitleaks 8, detect-secrets 1.5). Lengths are the least that tell them from words,
not those that are issued: a key that is cut is still a secret. Hexadecimal numbers are left, since
commits, digests and identifiers look the same.

detect-secrets itself is no dependency: it brings requests and PyYAML (8 MB, 0.15 s at import),
marks lines for a person to judge, and finds half of the forms that commands carry.
"""

import re
from typing import Final

MASK: Final = "***"

_PREFIXED: Final = (
    # Letters and digits follow: Hugging Face, npm, Groq, GitHub, Replicate, Fireworks, Supabase,
    # Netlify, Linear, Jina, Pinecone, RunPod, Shopify, RubyGems, Anyscale, Sentry, PostHog.
    (
        r"(?:hf|api_org|npm|gsk|gh[oprsu]|r8|fw|sbp|nfp|lin_api|jina|pcsk|rpa|shp(?:at|ca|pa|ss)"
        r"|rubygems|esecret|sntry[su]|ph[cx])_[A-Za-z0-9]{16,}"
    ),
    # Docker, Stripe, DigitalOcean, Together, W&B, LangSmith, Grafana, Figma, CircleCI.
    (
        r"(?:github_pat|dckr_[op]at|(?:sk|pk|rk)_(?:live|prod|test)|whsec|do[oprt]_v1|tgp_v1|wandb_v1"
        r"|lsv2_[ps][kt]|sb_secret|gl[cs]a?|figd|CCIPAT)_[\w-]{12,}"
    ),
    # NVIDIA, GitLab, Slack, xAI, Perplexity, Postman, Tailscale, Google, Square, Pulumi, age.
    (
        r"(?:nvapi|gl(?:agent|cbt|dt|ffct|ft|imt|oas|pat|ptt|rt|soat)|xox[a-z]|xapp|xai|pplx|PMAK|tskey"
        r"|GOCSPX|sq0[a-z]{3}|pul|AGE-SECRET-KEY)-[\w-]{10,}"
    ),
    # OpenAI and Anthropic, PyPI, Cerebras. Their prefixes also begin other words, without digits
    # and capitals in a row: sk-learn. One key of a thousand has no digit.
    r"(?:sk|pypi|csk)-(?=[\w-]{0,64}(?:\d|[a-z][A-Z]{2}))[\w-]{16,}",
    # AWS, Google, Vault, Databricks, crates.io, Atlassian, Mailgun, Doppler.
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}|(?:AIza|ya29\.|hv[bs]\.)[\w-]{20,}",
    r"(?:dapi|key-)[a-f0-9]{24,}|cio[A-Za-z0-9]{24,}|(?:ATATT|ATCTT|ATBB)[\w-]{20,}=*",
    r"dp\.[a-z]{2,5}\.\w{16,}",
    # A JSON web token, SendGrid, Discord, Terraform, Entra ID.
    r"eyJ[\w-]{8,}(?:\.[\w-]+){1,4}\.?",
    r"SG\.[\w-]{16,}\.[\w-]{16,}",
    r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,}",
    r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{16,}",
    r"\w{3}8Q~[\w.~-]{30,}",
)


def _mixed(characters: str) -> str:
    """A pattern of what follows holding letters of both cases and a digit."""
    return "".join(f"(?=[{characters}]*[{kind}])" for kind in ("a-z", "A-Z", "0-9"))


_SHAPES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        (
            r"-----BEGIN[ A-Z0-9]*PRIVATE KEY(?: BLOCK)?-----(?P<secret>[^\0]*?)"
            r"(?:-----END[ A-Z0-9]*-----|(?=\0)|\Z)"
        ),
        # user:password@ in an address; the password may hold @ and /. A number is a port, unless
        # an @ follows in the path.
        (
            r"""://(?P<secret>[^\s\0/?#@:"'<>]{0,256}:(?!\d{1,5}(?:[/?#\s\0"']|\Z))"""
            r"""[^\s\0"'<>]{0,512})@"""
        ),
        r"""://(?P<secret>[^\s\0/?#@:"'<>]{0,256}:[^\s\0?#"'<>]{0,512})@""",
        r"""://(?P<secret>[^\s\0/?#@"'<>]{1,512})@""",
        # Whoever has the address of a webhook may use it.
        r"""://(?=[^\s\0"']{0,256}hook)[^\s\0/"']{1,256}/(?P<secret>[^\s\0"']+)""",
        rf"\b(?P<secret>{'|'.join(_PREFIXED)})",
        r"(?<!\d)(?P<secret>\d{8,10}:[A-Za-z][\w-]{30,})",  # Telegram
        # Weights & Biases: wandb login KEY.
        r"\blogin[\s\0]+(?P<secret>[0-9a-f]{32,})(?!\w)",
        # base64: of 40 characters, as an AWS secret key, which no path and no hash is; or padded.
        rf"(?<![\w/+.-]){_mixed('A-Za-z0-9+/')}(?P<secret>[A-Za-z0-9+/]{{40}})(?![\w/+.=-])",
        rf"(?<![\w/+-]){_mixed('A-Za-z0-9+/_-')}(?P<secret>[A-Za-z0-9+/_-]{{22,}}={{1,2}})(?![\w=])",
        # What no separator divides is no name, but random.
        rf"(?<![A-Za-z0-9]){_mixed('A-Za-z0-9')}(?P<secret>[A-Za-z0-9]{{32,}})",
        # -pPASSWORD, as of mysql, and what only looks like a longer option: -parallel, -p8080.
        r"(?<![^\s\0\"'])-p(?!\w+=)(?P<secret>(?=[^\s\0]*[A-Za-z])(?=[^\s\0]*[A-Z\d!@#$%^&*?])[^\s\0]{4,})",
        r"\b(?:sshpass|login)\b[^;&|]{0,200}?[\s\0]-p[\s\0]+(?P<secret>[^\s\0]+)",
        # -u user:PASSWORD and -b COOKIE, as of curl; two numbers are ids of a user and a group.
        (
            r"(?<![^\s\0\"'])(?:-[uU]|--(?:proxy-)?user)[\s\0=]*\"?'?(?!\d+:\d+(?:[\s\0]|\Z))"
            r"[^\s\0:/]+:(?!//)(?P<secret>[^\0]+?)(?=[\"']?(?:\0|\Z)|(?<=[^\0])[\"'\s])"
        ),
        r"(?<![^\s\0\"'])-b[\s\0]+\"?'?[\w-]+=(?P<secret>[^\0\"']+?)(?=[\"'\0]|\s-|\Z)",
    )
)


def without_shapes(text: str) -> str:
    """A text with what has the shape of a secret masked; NULs in it stay."""
    for shape in _SHAPES:
        text = shape.sub(_without, text)
    return text


def _without(match: re.Match[str]) -> str:
    start, stop = (place - match.start() for place in match.span("secret"))
    return f"{match[0][:start]}{MASK}{match[0][stop:]}"
