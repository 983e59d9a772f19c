# Consensus: the API, the workers, beat and Flower are one image; compose says which command each runs.
ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS build
WORKDIR /build
RUN python -m venv /opt/consensus
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY pyproject.toml constraints.txt README.md ./
# Without the sources this installs what they need: a layer that a change of the sources leaves as it is.
RUN /opt/consensus/bin/pip install --quiet --constraint constraints.txt '.[score,parquet]'
COPY api api
COPY workers workers
COPY teams teams
COPY migrations migrations
RUN /opt/consensus/bin/pip install --quiet --no-deps --force-reinstall .

FROM ${BASE_IMAGE}
COPY --from=build /opt/consensus /opt/consensus
# A user of its own: a shared `nobody` may be somebody else's too, and the cages have uids from 20000 up.
RUN echo 'consensus:x:10001:10001::/home/consensus:/usr/sbin/nologin' >>/etc/passwd && \
    echo 'consensus:x:10001:' >>/etc/group && \
    mkdir -p /home/consensus && chown 10001:10001 /home/consensus
ENV PATH=/opt/consensus/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/home/consensus \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /home/consensus
ENTRYPOINT ["consensus"]
CMD ["--help"]
