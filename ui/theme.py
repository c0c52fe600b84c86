"""The look of Gradio's own widgets: system fonts, quiet surfaces, one accent. Our parts are styled in static/*.css."""

from __future__ import annotations

from pathlib import Path

import gradio as gr

STATIC = Path(__file__).parent / "static"
SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "Liberation Sans", "sans-serif")
MONO = ("ui-monospace", "SFMono-Regular", "Cascadia Mono", "Consolas", "Liberation Mono", "monospace")

# The variables are defined, for light and dark, in static/base.css.
_SAME = {
    "body_background_fill": "var(--n-page)",
    "body_text_color": "var(--n-ink)",
    "body_text_color_subdued": "var(--n-muted)",
    "background_fill_primary": "var(--n-card)",
    "background_fill_secondary": "var(--n-page)",
    "block_background_fill": "var(--n-card)",
    "block_border_color": "var(--n-line)",
    "block_info_text_color": "var(--n-muted)",
    "block_label_background_fill": "transparent",
    "block_label_text_color": "var(--n-muted)",
    "block_title_text_color": "var(--n-ink)",
    "border_color_primary": "var(--n-line)",
    "border_color_accent": "var(--n-accent)",
    "color_accent": "var(--n-accent)",
    "color_accent_soft": "var(--n-accent-soft)",
    "link_text_color": "var(--n-accent)",
    "link_text_color_hover": "var(--n-accent)",
    "link_text_color_visited": "var(--n-accent)",
    "link_text_color_active": "var(--n-accent)",
    "panel_background_fill": "var(--n-card)",
    "panel_border_color": "var(--n-line)",
    "input_background_fill": "var(--n-field)",
    "input_background_fill_focus": "var(--n-field)",
    "input_border_color": "var(--n-line-strong)",
    "input_border_color_focus": "var(--n-accent)",
    "input_placeholder_color": "var(--n-muted)",
    "button_primary_background_fill": "var(--n-accent)",
    "button_primary_background_fill_hover": "var(--n-accent-strong)",
    "button_primary_text_color": "var(--n-on-accent)",
    "button_primary_border_color": "var(--n-accent)",
    "button_secondary_background_fill": "var(--n-card)",
    "button_secondary_background_fill_hover": "var(--n-hover)",
    "button_secondary_text_color": "var(--n-ink)",
    "button_secondary_border_color": "var(--n-line-strong)",
    "button_cancel_background_fill": "var(--n-card)",
    "button_cancel_background_fill_hover": "var(--n-hover)",
    "button_cancel_text_color": "var(--n-bad)",
    "button_cancel_border_color": "var(--n-bad)",
    "checkbox_background_color": "var(--n-field)",
    "checkbox_background_color_selected": "var(--n-accent)",
    "checkbox_border_color": "var(--n-line-strong)",
    "checkbox_border_color_selected": "var(--n-accent)",
    "checkbox_label_background_fill": "transparent",
    "checkbox_label_background_fill_hover": "var(--n-hover)",
    "checkbox_label_background_fill_selected": "var(--n-accent-soft)",
    "checkbox_label_border_color": "transparent",
    "checkbox_label_text_color": "var(--n-ink)",
    "slider_color": "var(--n-accent)",
    "table_border_color": "var(--n-line)",
    "code_background_fill": "var(--n-code)",
    "shadow_drop": "none",
    "shadow_drop_lg": "none",
    "block_shadow": "none",
    "button_primary_shadow": "none",
    "button_secondary_shadow": "none",
    "input_shadow": "none",
    "input_shadow_focus": "0 0 0 3px var(--n-accent-soft)",
}


def make() -> gr.themes.Base:
    """The theme; every colour is a CSS variable of ours, so light and dark are decided in one place."""
    theme = gr.themes.Base(
        font=list(SANS), font_mono=list(MONO), radius_size=gr.themes.sizes.radius_md, text_size=gr.themes.sizes.text_md
    )
    known = vars(theme)
    both = dict(_SAME)
    both.update({f"{name}_dark": value for name, value in _SAME.items() if f"{name}_dark" in known})
    return theme.set(**{name: value for name, value in both.items() if name in known})


def head() -> str:
    """Our style sheets and scripts, inlined: nothing is fetched, and nothing is cached across versions.

    Not through Gradio's `css`, which rewrites every selector.
    """
    styles = "\n".join(path.read_text("utf-8") for path in sorted(STATIC.glob("*.css")))
    scripts = "\n".join(path.read_text("utf-8") for path in sorted(STATIC.glob("[0-9]*.js")))
    return f"<style>{styles}</style><script>{scripts}</script>"
