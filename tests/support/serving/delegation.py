"""The surroundings of a secure port: an API server with scripted reviews, and incoming requests."""

from __future__ import annotations

import asyncio

from multidict import CIMultiDict, CIMultiDictProxy

from stowplan.kube.api.users import ReviewedUser, SubjectAccessReviewStatus, TokenReview, TokenReviewStatus
from stowplan.net.serving.user import Peer

NOBODY = Peer()


def headers(*pairs, **named):
    """Header fields; `X_Remote_User="a"` stands for `X-Remote-User: a`."""
    given = [*pairs, *((name.replace("_", "-"), value) for name, value in named.items())]
    return CIMultiDictProxy(CIMultiDict(given))


def bearer(token):
    return headers(Authorization=f"Bearer {token}")


def presenting(*issued):
    return Peer(tuple(one.der for one in issued))


def owned_by(name, **more):
    return TokenReviewStatus(authenticated=True, user=ReviewedUser(username=name, **more))


class ReviewingApi:
    """Answers reviews from `tokens` and `rights`; the exceptions in `trouble` are raised first, one per review."""

    def __init__(self):
        self.tokens = {}
        #: (user name, verb, path) -> answer; everything else is denied.
        self.rights = {}
        self.trouble = []
        self.asked = []
        #: An event that answers wait for, if any.
        self.gate = None

    async def create(self, review, *, lane="default"):
        self.asked.append(review)
        if self.gate is not None:
            await self.gate.wait()
        if self.trouble:
            error = self.trouble.pop(0)
            if error is not None:
                raise error
        return type(review)(spec=review.spec, status=self._status(review))

    def _status(self, review):
        if isinstance(review, TokenReview):
            return self.tokens.get(review.spec.token, TokenReviewStatus(error="[invalid bearer token]"))
        about = review.spec.non_resource_attributes
        return self.rights.get((review.spec.user, about.verb, about.path), SubjectAccessReviewStatus())

    def hold(self):
        self.gate = asyncio.Event()

    def let_go(self):
        self.gate.set()
        self.gate = None
