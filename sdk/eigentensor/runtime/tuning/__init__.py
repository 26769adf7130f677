"""Schedules by measurement: times of bodies in a database, and a fitted model for shapes that were never measured."""
