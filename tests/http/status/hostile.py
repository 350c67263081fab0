"""Names and values that a page must show as text."""

MARKUP = '"><img src=x onerror="window.attacked=1"><script>window.attacked=1</script>'
HOSTILE = (
    MARKUP,
    "javascript:window.attacked=1",
    "</title></td>&lt;b&gt;\u202egnp",
    "{{7*7}}${7*7}",
    "../api/state?a=b#c",
)
