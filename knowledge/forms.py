"""The admin's form of a document: what a person changed, and what came back as it was shown."""

from typing import Any

from django import forms
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextInputWidget

from knowledge import queries, services
from knowledge.models import DocumentStatus, KnowledgeDocument
from zhifu.tenant_admin import ScopedForm

CONTENT_FIELDS = [
    "title",
    "source_text",
    "collection",
    "source_type",
    "entity_ref",
    "audience",
    "effective_from",
    "expires_at",
]


class TagsField(forms.CharField):
    """Tags in one line. Which commas part them is no difference."""

    def has_changed(self, initial: Any, data: Any) -> bool:
        return split_tags(initial or "") != split_tags(data or "")


def split_tags(line: str) -> tuple[str, ...]:
    """Return the tags of a line, each once."""
    parts = line.replace("，", ",").split(",")
    return tuple(dict.fromkeys(tag.strip() for tag in parts if tag.strip()))


class DocumentForm(ScopedForm):
    """The newest version's content, and the number it had when the form was shown.

    `changed_data` names what the person changed: not the hidden number, and nothing that came back as it was shown.
    """

    tags = TagsField(label=_("标签"), required=False, help_text=_("用逗号分隔"), widget=UnfoldAdminTextInputWidget())
    expected_version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = KnowledgeDocument
        fields = ["store"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is None:
            self.fields["store"].queryset = self.fields["store"].queryset.filter(is_open=True)  # type: ignore[attr-defined]  # a ModelChoiceField
            return
        version = queries.newest_version(self.instance)
        self.written_tags = tuple(version.tags)
        self.initial["expected_version"] = self.instance.version
        self.initial.update({name: getattr(version, name) for name in CONTENT_FIELDS})
        self.initial["tags"] = "，".join(version.tags)

    @cached_property
    def changed_data(self) -> list[str]:
        return [name for name in super().changed_data if name != "expected_version" and not _is_as_shown(self[name])]

    def clean_source_text(self) -> str:
        """Browsers send CRLF; the text is kept with the line ends it was given over the API."""
        return str(self.cleaned_data["source_text"]).replace("\r\n", "\n")

    def clean_tags(self) -> tuple[str, ...]:
        return split_tags(str(self.cleaned_data["tags"]))

    @property
    def changes_nothing(self) -> bool:
        """Say whether saving would only repeat the newest version. After a revocation a repetition is a change."""
        document = self.instance
        return (
            document.pk is not None
            and not self.changed_data
            and document.status != DocumentStatus.REVOKED
            and self.cleaned_data["expected_version"] == document.version
        )

    def content(self) -> services.Content:
        """Return what to save: of an existing document, what was not changed stays exactly as it was written."""
        kept = set() if self.instance.pk is None else {*CONTENT_FIELDS, "tags"} - set(self.changed_data)
        values = {name: (self.initial if name in kept else self.cleaned_data)[name] for name in CONTENT_FIELDS}
        return services.Content(**values, tags=self.written_tags if "tags" in kept else self.cleaned_data["tags"])


def _is_as_shown(field: forms.BoundField) -> bool:
    """Say whether a field came back as the page showed it: a browser makes all line ends CRLF, and a moment's seconds
    are not shown."""
    widget = field.field.widget
    if isinstance(widget, forms.MultiWidget):
        parts = zip(widget.widgets, widget.decompress(field.initial) or (), strict=True)
        return [part or "" for part in field.data] == [inner.format_value(value) or "" for inner, value in parts]
    return _with_plain_line_ends(field.data) == _with_plain_line_ends(field.initial)


def _with_plain_line_ends(text: Any) -> str:
    return str(text or "").replace("\r\n", "\n").replace("\r", "\n")
