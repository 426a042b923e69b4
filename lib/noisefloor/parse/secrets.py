"""Secrets out of text: passwords in argv echoes, URLs, option files, SQL, JSON and pipelines."""

import re

HIDDEN = "***"

_WORD = r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|(?:encrypt|secret|api|access)[-_]?key)"
# a setting such as disconnect_on_expired_password=ON or (using password: YES) is no secret
_NOT = r"(?!password\()(?!(?:on|off|yes|no|true|false|null|none)\b)(?!\*\*\*)"
_VALUE = r"(?:\"[^\"\n]+\"|'[^'\n]+'|[^\s\"'&;,)]+)"
_RULES = tuple(
    re.compile(rule, re.IGNORECASE)
    for rule in (
        # --mysql-password=x, password = x, MYSQL_PWD=x, ?password=x&, MASTER_PASSWORD='x'
        rf"(?<![a-z0-9])((?:[a-z0-9]{{1,40}}[-_.]){{0,5}}(?:mysql|pg)?{_WORD}[ \t]{{0,9}}=[ \t]{{0,9}})({_NOT}{_VALUE})",
        # --password x
        rf"(--(?:[a-z0-9]{{1,40}}-){{0,5}}{_WORD}[ \t]{{1,9}})({_NOT}(?!-){_VALUE})",
        # "password": "x", password: x
        rf"(?<![a-z0-9])((?:[a-z0-9]{{1,40}}[-_.]){{0,5}}{_WORD}[\"']?:[ \t]{{0,9}})({_NOT}{_VALUE})",
        # scheme://user:x@host; one slash where it was taken for a path
        r"(:/{1,2}[^\s:/@]{0,100}:)((?!\*\*\*@)[^\s/@]{1,200}(?=@))",
        # IDENTIFIED BY 'x', IDENTIFIED WITH plugin BY 'x'
        r"(\bidentified[ \t]+(?:with[ \t]+\S{1,60}[ \t]+)?(?:by|as)[ \t]+(?:password[ \t]+)?)((?!'\*\*\*')(?:'[^'\n]*'|\"[^\"\n]*\"))",
        # SET PASSWORD FOR user = 'x', PASSWORD('x')
        r"(\bset[ \t]+password[ \t]+for[ \t]+\S{1,200}[ \t]*=[ \t]*|\bpassword\()((?!'\*\*\*')'[^'\n]*')",
        # Authorization: Bearer x
        r"(\bauthorization[\"']?:[ \t]*(?:bearer|basic)[ \t]+)((?!\*\*\*)[^\s\"',;]+)",
        # mysql -uroot -px, and the same for the client's relatives
        r"(\b(?:mysql|mariadb|xtrabackup|innobackupex|mariabackup|mydumper|myloader)[a-z-]{0,20}\b(?:[ \t][^\n|;]{0,500}?)?[ \t](?-i:-p))((?!\*\*\*)[^\s|;]+)",
        # openssl enc -k x, -K x
        r"(\bopenssl[ \t][^\n|;]{0,500}?[ \t]-k[ \t]{1,9})((?!\*\*\*)[^\s|;]+)",
    )
)
_HINTS = (
    "pass",
    "pwd",
    "secret",
    "token",
    "credential",
    "key",
    ":/",
    "identified",
    "authorization",
    " -p",
    "openssl",
)


def scrub(text: str) -> tuple[str, int]:
    """(`text` with every secret found replaced by ``***``, how many were). Idempotent."""
    low = text.lower()
    if not any(hint in low for hint in _HINTS):
        return text, 0
    count = 0
    for rule in _RULES:
        text, n = rule.subn(rf"\g<1>{HIDDEN}", text)
        count += n
    return text, count
