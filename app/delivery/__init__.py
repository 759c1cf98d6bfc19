"""Alerts on their way out: a broker (MQTT) and a webhook, each with a thread of its own, never in the way of ingest.

ops.alert is the outbox: an alert is due on a channel while the version that channel has taken is older than the
alert's. What could not be sent is therefore sent later, also after a restart, and always as it is by then.
"""

from __future__ import annotations

from app.delivery.courier import ChannelStatus, Couriers, start_couriers
from app.delivery.message import Channel, Message, channels, configured

__all__ = ["Channel", "ChannelStatus", "Couriers", "Message", "channels", "configured", "start_couriers"]
