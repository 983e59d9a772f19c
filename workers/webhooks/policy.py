"""Which webhooks are taken on at all, said when a run or a batch is submitted."""

from __future__ import annotations

import dataclasses

from workers.address_guard import check_url
from workers.errors import AddressRefusedError, InputError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WebhookPolicy:
    """What this installation can sign, and how far it may reach."""

    has_secret: bool = False
    allow_private: bool = False

    def check(self, url: str | None, field: str = "webhook_url") -> None:
        """Raises: InputError with a sentence that names `field` and never repeats the URL."""
        if url is None:
            return
        if not self.has_secret:
            raise InputError(
                f"{field}: this installation cannot sign webhooks; its operator sets CONSENSUS_WEBHOOK_SECRET, "
                "or leave the field out"
            )
        try:
            check_url(url, allow_private=self.allow_private)
        except AddressRefusedError as error:
            way_out = (
                "; the operator of this installation can allow that with CONSENSUS_WEBHOOK_ALLOW_PRIVATE=1"
            )
            raise InputError(f"{field} {error}{way_out if error.is_private else ''}") from None
