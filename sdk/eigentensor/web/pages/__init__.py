"""Pages for people over what a service tells in JSON: full HTML from templates, kept up to date by small scripts.

A service makes a `Site` of its own templates, gives it to `install`, and answers with `site.page(request, template,
**data)`. The templates of this package have the layout (`base.html`) and what pages are made of (`ui.html`).
"""
