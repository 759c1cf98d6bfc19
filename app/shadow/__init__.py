"""The shadow at the desk: asking policies about logged requests, and what pairs of outcomes say."""
