//! What can be asked.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Json, Response};
use axum::routing::get;
use serde_json::json;
use telemetry::TextFormat;

/// Nothing that is asked here needs a long body.
const BODY_BYTES_MAX: usize = 64 << 10;

const INDEX: &str = "<!doctype html>
<title>Vltava</title>
<h1>Vltava</h1>
<ul>
<li><a href=\"/health/live\">/health/live</a>: whether the process answers
<li><a href=\"/health/ready\">/health/ready</a>: whether it serves clients, and if not, why
<li><a href=\"/metrics\">/metrics</a>: numbers for Prometheus
</ul>
";

/// Whether clients are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// They are.
    Ready,
    /// They are, but a part of the node is not as it should be, for these reasons.
    ReadyBut(Vec<String>),
    /// They are not, for these reasons.
    NotReady(Vec<String>),
}

/// Where the answers come from.
#[derive(Clone)]
pub struct HttpState {
    /// Asked for each `/health/ready`; must not wait.
    pub ready: Arc<dyn Fn() -> Readiness + Send + Sync>,
    /// Shown as `/metrics`; may take a moment.
    pub metrics: Arc<dyn Fn(TextFormat) -> String + Send + Sync>,
}

impl fmt::Debug for HttpState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HttpState").finish_non_exhaustive()
    }
}

pub(crate) fn router(state: HttpState) -> Router {
    Router::new()
        .route("/", get(|| async { Html(INDEX) }))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/metrics", get(metrics))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn(refuse_long_bodies))
        .layer(middleware::map_response(harden))
        .with_state(state)
}

/// For those who came when all seats were taken.
pub(crate) fn health(state: HttpState) -> Router {
    let busy =
        || async { refuse(StatusCode::SERVICE_UNAVAILABLE, "too many connections are open: try later") };
    Router::new()
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .fallback(busy)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn(refuse_long_bodies))
        .layer(middleware::map_response(harden))
        .with_state(state)
}

async fn live() -> Json<serde_json::Value> {
    Json(json!({ "status": "live" }))
}

async fn ready(State(state): State<HttpState>) -> Response {
    match (state.ready)() {
        Readiness::Ready => Json(json!({ "status": "ready" })).into_response(),
        Readiness::ReadyBut(warnings) => {
            Json(json!({ "status": "ready", "warnings": warnings })).into_response()
        }
        Readiness::NotReady(reasons) => {
            let body = Json(json!({ "status": "not ready", "reasons": reasons }));
            (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
        }
    }
}

async fn metrics(State(state): State<HttpState>, headers: HeaderMap) -> Response {
    let format = format_for(headers.get(header::ACCEPT));
    match tokio::task::spawn_blocking(move || (state.metrics)(format)).await {
        Ok(page) => ([(header::CONTENT_TYPE, format.content_type())], page).into_response(),
        // A panic was reported by the panic hook.
        Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made; the log says why"),
    }
}

/// Prometheus names OpenMetrics first if it can read it; everybody else gets the plain text.
fn format_for(accept: Option<&HeaderValue>) -> TextFormat {
    let accept = accept.and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accept.contains("application/openmetrics-text") {
        TextFormat::OpenMetrics
    } else {
        TextFormat::Prometheus
    }
}

async fn not_found(uri: Uri) -> Response {
    refuse(StatusCode::NOT_FOUND, &format!("there is no {}; / lists what there is", uri.path()))
}

async fn method_not_allowed() -> Response {
    refuse(StatusCode::METHOD_NOT_ALLOWED, "this can only be read: use GET")
}

async fn refuse_long_bodies(request: Request, next: Next) -> Response {
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    match declared.map(str::parse::<usize>) {
        None => next.run(request).await,
        Some(Ok(length)) if length <= BODY_BYTES_MAX => next.run(request).await,
        Some(_) => {
            refuse(StatusCode::PAYLOAD_TOO_LARGE, &format!("a body has at most {BODY_BYTES_MAX} bytes"))
        }
    }
}

/// A browser must not guess what a page is, nor keep it.
async fn harden(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn refuse(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({ "error": why }))).into_response()
}
