{{- define "bridge.env" -}}
env:
  - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  {{- if and .Values.outside.listener (eq .Values.outside.type "NodePort") }}
  - {name: POD_INDEX, valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}}
  - {name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
  {{- end }}
  # a node keeps its id under this name
  - {name: BRIDGE_CLUSTER_NAME, value: $(POD_NAME)}
  - {name: BRIDGE_KAFKA_LISTENERS, value: {{ include "bridge.listeners" . | quote }}}
  - {name: BRIDGE_KAFKA_ADVERTISED_LISTENERS, value: {{ include "bridge.advertised" . | quote }}}
  - {name: BRIDGE_KAFKA_LISTENER_SECURITY_PROTOCOL_MAP, value: {{ include "bridge.protocols" . | quote }}}
  - {name: BRIDGE_HTTP_LISTEN, value: "0.0.0.0:{{ .Values.http.port }}"}
  - {name: BRIDGE_PULSAR_SERVICE_URL, value: {{ .Values.pulsar.serviceUrl | quote }}}
  - {name: BRIDGE_PULSAR_ADMIN_URL, value: {{ .Values.pulsar.adminUrl | quote }}}
  - {name: BRIDGE_PULSAR_TENANT, value: {{ .Values.pulsar.tenant | quote }}}
  - {name: BRIDGE_PULSAR_NAMESPACE, value: {{ .Values.pulsar.namespace | quote }}}
  {{- if .Values.pulsar.tokenSecret.name }}
  - {name: BRIDGE_PULSAR_TOKEN_FILE, value: "/etc/bridge-secrets/pulsar-token/{{ .Values.pulsar.tokenSecret.key }}"}
  {{- end }}
  {{- if .Values.pulsar.caConfigMap.name }}
  - {name: BRIDGE_PULSAR_TLS_CA_FILE, value: "/etc/bridge-secrets/pulsar-ca/{{ .Values.pulsar.caConfigMap.key }}"}
  {{- end }}
  {{- if .Values.http.tokenSecret.name }}
  - {name: BRIDGE_HTTP_TOKEN_FILE, value: "/etc/bridge-secrets/metrics-token/{{ .Values.http.tokenSecret.key }}"}
  {{- end }}
  {{- if .Values.http.tls }}
  {{- $_ := required "http.tls needs tlsSecret" .Values.tlsSecret }}
  - {name: BRIDGE_HTTP_SSL_CERTIFICATE_FILE, value: /etc/bridge-secrets/tls/tls.crt}
  - {name: BRIDGE_HTTP_SSL_KEY_FILE, value: /etc/bridge-secrets/tls/tls.key}
  {{- end }}
  {{- range .Values.listeners }}
  {{- if has .protocol (list "SSL" "SASL_SSL") }}
  {{- $_ := required "listeners with TLS need tlsSecret" $.Values.tlsSecret }}
  - {name: BRIDGE_LISTENER_{{ .name }}_SSL_CERTIFICATE_FILE, value: /etc/bridge-secrets/tls/tls.crt}
  - {name: BRIDGE_LISTENER_{{ .name }}_SSL_KEY_FILE, value: /etc/bridge-secrets/tls/tls.key}
  {{- end }}
  {{- end }}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- /* Whole directories, without subPath: only those show a Secret that is renewed. None within the ConfigMap's, which is read-only. */ -}}
{{- define "bridge.mounts" -}}
volumeMounts:
  - {name: settings, mountPath: /etc/bridge, readOnly: true}
  - {name: tmp, mountPath: /tmp}
  {{- if .Values.tlsSecret }}
  - {name: tls, mountPath: /etc/bridge-secrets/tls, readOnly: true}
  {{- end }}
  {{- if .Values.pulsar.tokenSecret.name }}
  - {name: pulsar-token, mountPath: /etc/bridge-secrets/pulsar-token, readOnly: true}
  {{- end }}
  {{- if .Values.pulsar.caConfigMap.name }}
  - {name: pulsar-ca, mountPath: /etc/bridge-secrets/pulsar-ca, readOnly: true}
  {{- end }}
  {{- if .Values.http.tokenSecret.name }}
  - {name: metrics-token, mountPath: /etc/bridge-secrets/metrics-token, readOnly: true}
  {{- end }}
  {{- range .Values.secretMounts }}
  - {name: secret-{{ .name }}, mountPath: {{ .mountPath }}, readOnly: true}
  {{- end }}
{{- end }}

{{- define "bridge.volumes" -}}
volumes:
  - {name: settings, configMap: {name: {{ include "bridge.name" . }}}}
  - {name: tmp, emptyDir: {}}
  {{- with .Values.tlsSecret }}
  - {name: tls, secret: {secretName: {{ . }}, defaultMode: 0440}}
  {{- end }}
  {{- with .Values.pulsar.tokenSecret.name }}
  - {name: pulsar-token, secret: {secretName: {{ . }}, defaultMode: 0440}}
  {{- end }}
  {{- with .Values.pulsar.caConfigMap.name }}
  - {name: pulsar-ca, configMap: {name: {{ . }}}}
  {{- end }}
  {{- with .Values.http.tokenSecret.name }}
  - {name: metrics-token, secret: {secretName: {{ . }}, defaultMode: 0440}}
  {{- end }}
  {{- range .Values.secretMounts }}
  - {name: secret-{{ .name }}, secret: {secretName: {{ .name }}, defaultMode: 0440}}
  {{- end }}
{{- end }}
