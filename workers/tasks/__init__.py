"""Celery tasks: ten lines around a stage that knows nothing of Celery."""
